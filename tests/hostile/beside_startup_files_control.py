"""Hands in a folder with the same files, empty, beside a right submission."""

import torch.distributed as dist

HAND_IN = "folder"
BESIDE = {"conftest.py": "", "sitecustomize.py": "", "usercustomize.py": "", "evil.pth": "", "pytest.ini": "[pytest]\n"}


def total(value):
    dist.all_reduce(value)
    return value
