"""Exercise 21: the reference solution, handed in, which looks at the dumps alone."""

EXERCISE_NAME = "21"
FILE = "debug_distributed.py"
REAL = True
HAND_IN = "copy @REPOSITORY@/reference/21_debug_distributed/debug_distributed.py"
