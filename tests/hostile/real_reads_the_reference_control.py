"""Exercise 03: the same solution, handed in."""

EXERCISE_NAME = "03"
FILE = "train_ddp.py"
REAL = True
HAND_IN = "copy @REPOSITORY@/reference/03_train_ddp/train_ddp.py"
