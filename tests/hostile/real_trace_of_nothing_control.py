"""Exercise 05: the reference solution, handed in, whose trace is true."""

EXERCISE_NAME = "05"
FILE = "no_sync.py"
REAL = True
HAND_IN = "copy @REPOSITORY@/reference/05_no_sync/no_sync.py"
