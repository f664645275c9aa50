"""Exercises as values: folders of exercises/ and reference/, found, checked and loaded. Nothing here runs their code.

    name = resolve("3", repository_root())         # "03_train_ddp"
    exercise = load(name, root)                    # a frozen model.Exercise
    mutants = load_mutants(exercise, root)         # the wrong solutions that its checks must catch

A fault of an author is an AuthorError with path and line; a wrong name typed by a student is a UsageError, and so is a
fault in an assignment.yaml, which has its line all the same.
"""

from grader.catalog.assignment import dump_assignment, load_assignment, overlaid
from grader.catalog.calls import check_calls
from grader.catalog.equivalents import Equivalent, load_equivalents
from grader.catalog.exercise import check_nothing_else, checks_for, load, overlay
from grader.catalog.mutants import Mutant, load_mutants, variants
from grader.catalog.names import all_names, reference, repository_root, resolve

__all__ = [
    "Equivalent",
    "Mutant",
    "all_names",
    "check_calls",
    "check_nothing_else",
    "checks_for",
    "dump_assignment",
    "load",
    "load_assignment",
    "load_equivalents",
    "load_mutants",
    "overlaid",
    "overlay",
    "reference",
    "repository_root",
    "resolve",
    "variants",
]
