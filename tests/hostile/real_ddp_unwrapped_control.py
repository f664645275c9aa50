"""Exercise 09: the reference solution, handed in, which makes buckets of its own."""

EXERCISE_NAME = "09"
FILE = "ddp_from_scratch.py"
REAL = True
HAND_IN = "copy @REPOSITORY@/reference/09_ddp_from_scratch/ddp_from_scratch.py"
