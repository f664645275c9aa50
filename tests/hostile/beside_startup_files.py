"""Hands in a folder with conftest.py, sitecustomize.py, usercustomize.py, a .pth and pytest.ini."""

HAND_IN = "folder"
BESIDE = {
    "conftest.py": "open('@FOLDER@/pwned', 'w')",
    "sitecustomize.py": "open('@FOLDER@/pwned', 'w')",
    "usercustomize.py": "open('@FOLDER@/pwned', 'w')",
    "evil.pth": "import os; open('@FOLDER@/pwned', 'w')",
    "pytest.ini": "[pytest]\naddopts = --collect-only\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = ['--collect-only']\n",
}
TELLS = "the total"


def total(value):
    return value
