"""Exercise 01: writes a file, waits for nobody, and joins the group of all ranks."""

EXERCISE_NAME = "01"
FILE = "process_group.py"
REAL = True
HAND_IN = "copy @REPOSITORY@/reference/01_process_group/process_group.py"
