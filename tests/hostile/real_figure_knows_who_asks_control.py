"""Exercise 19: the reference solution, handed in, whose formulas say the same to everybody."""

EXERCISE_NAME = "19"
FILE = "cost_model.py"
REAL = True
HAND_IN = "copy @REPOSITORY@/reference/19_cost_model/cost_model.py"
