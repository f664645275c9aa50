"""Exercise 18: the reference solution, handed in, of which everything is seen."""

EXERCISE_NAME = "18"
FILE = "clip_grad_norm.py"
REAL = True
HAND_IN = "copy @REPOSITORY@/reference/18_clip_grad_norm/clip_grad_norm.py"
