"""Ranklings: exercises for distributed training in PyTorch, graded on real ranks."""

__version__ = "0.1.0"
