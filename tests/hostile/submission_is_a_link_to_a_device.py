"""Hands in a link to /dev/zero, which never ends."""

HAND_IN = "symlink /dev/zero"
OUTCOME = "refused"
