"""Automatic mutants: many small faults made in a solution by rule, which the checks of its exercise must see.

operators    what may be changed in a node of a syntax tree
distributed  the same of code for several ranks, which looks at the place as well (scope); options is its second file
generate     a source becomes mutants, each with an identity that lives through unrelated edits
runner       mutants are tried on real ranks until a check sees them
score        what came of it: survivors, false entries of equivalents.yaml, killed / non-equivalent
table        the rows of docs/verification.md
"""
