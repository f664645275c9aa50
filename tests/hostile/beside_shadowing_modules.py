"""Hands in a folder with torch.py, json.py, numpy.py and grader/ beside the submission, which write a file."""

HAND_IN = "folder"
BESIDE = {
    "torch.py": "open('@FOLDER@/pwned', 'w')",
    "json.py": "open('@FOLDER@/pwned', 'w')",
    "numpy.py": "open('@FOLDER@/pwned', 'w')",
    "grader/__init__.py": "open('@FOLDER@/pwned', 'w')",
    "grader/records/wire.py": "open('@FOLDER@/pwned', 'w')",
}
TELLS = "the total"


def total(value):
    return value
