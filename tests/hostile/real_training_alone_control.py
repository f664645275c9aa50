"""Exercise 03: a right solution that averages the gradients by hand, over the group."""

EXERCISE_NAME = "03"
FILE = "train_ddp.py"
REAL = True
HAND_IN = "copy @REPOSITORY@/reference/03_train_ddp/variants/flat_all_reduce.py"
