"""Asks for an exercise by a name that leads out of exercises/ into the inbox."""

EXERCISE_NAME = "../../inbox/91_total"
HAND_IN = "folder"
BESIDE = {
    "91_total/exercise.yaml": """\
title: The total
summary: Nothing is asked for.
requires: {total: (value)}
cases: {sum: {world_sizes: [1]}}
checks: {sums: {points: 100}}
""",
    "91_total/total.py": "def total(value):\n    raise NotImplementedError\n",
    "91_total/README.md": "# The total\n",
    "91_total/probe.py": "def sum(rank):\n    pass\n",
    "91_total/checks.py": 'def test_sums(runs):\n    """All ranks get the sum"""\n',
}
OUTCOME = "refused or failed"


def total(value):
    return value
