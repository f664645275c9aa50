"""Hands in a folder whose file is a symbolic link to the reference solution, which the judge would read and run."""

HAND_IN = "symlink @ROOT@/reference/91_total/total.py"
OUTCOME = "refused"
