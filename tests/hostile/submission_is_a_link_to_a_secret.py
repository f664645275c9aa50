"""Hands in a link to a file that is no Python, in the hope that the message about its syntax quotes it."""

HAND_IN = "symlink @FOLDER@/home/.netrc"
OUTCOME = "refused"
