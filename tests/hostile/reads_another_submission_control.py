"""Imports its own file again under another name, and answers."""

import importlib.util

import torch.distributed as dist


def total(value):
    spec = importlib.util.spec_from_file_location("again", __file__)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    dist.all_reduce(value)
    return value
