"""Hands in a FIFO that nobody writes to, so that reading it never ends."""

HAND_IN = "fifo"
OUTCOME = "refused"
