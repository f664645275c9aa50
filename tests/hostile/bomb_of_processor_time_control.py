"""Computes a hash below Python, and answers."""

import hashlib

import torch.distributed as dist


def total(value):
    assert hashlib.pbkdf2_hmac("sha256", b"x", b"y", 1000)
    dist.all_reduce(value)
    return value
