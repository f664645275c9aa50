"""Exercise 07: the reference solution, handed in, which keeps its shard where everybody sees it."""

EXERCISE_NAME = "07"
FILE = "sharded_optimizer.py"
REAL = True
HAND_IN = "copy @REPOSITORY@/reference/07_sharded_optimizer/sharded_optimizer.py"
