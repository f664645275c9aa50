"""Exercise 03: reads the repository's reference solution and runs it in place of its own."""

EXERCISE_NAME = "03"
FILE = "train_ddp.py"
REAL = True
STOPPED_BY = "bubblewrap"
BELOW = "passed"
TELLS = "FileNotFoundError"

with open("@REPOSITORY@/reference/03_train_ddp/train_ddp.py") as file:
    exec(file.read())
