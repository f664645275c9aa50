"""Exercise 03: the reference solution, handed in, which averages in the group."""

EXERCISE_NAME = "03"
FILE = "train_ddp.py"
REAL = True
HAND_IN = "copy @REPOSITORY@/reference/03_train_ddp/train_ddp.py"
