"""Exercise 01: the reference solution, handed in, which joins."""

EXERCISE_NAME = "01"
FILE = "process_group.py"
REAL = True
HAND_IN = "copy @REPOSITORY@/reference/01_process_group/process_group.py"
