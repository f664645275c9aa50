"""A whole course at once: many hand-ins graded on slots, recorded in a ledger, and read as a class."""
