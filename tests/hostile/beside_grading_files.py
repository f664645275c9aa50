"""Hands in a folder with a probe.py, checks.py and exercise.yaml of its own, which ask for nothing."""

HAND_IN = "folder"
BESIDE = {
    "probe.py": "def sum(rank):\n    pass\n",
    "checks.py": 'def test_sums():\n    """All ranks get the sum"""\n',
    "exercise.yaml": "title: Nothing\nsummary: Nothing.\nchecks: {}\n",
}
TELLS = "the total"


def total(value):
    return value
