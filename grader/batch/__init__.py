"""A whole course at once: many hand-ins of several exercises, graded on slots, recorded in a ledger, read as a class."""
