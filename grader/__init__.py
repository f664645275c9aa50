"""Ranklings: exercises for distributed training in PyTorch, graded on real ranks."""

__version__ = "0.1.0"


def load_ipython_extension(shell: object) -> None:
    """`%load_ext grader` in a notebook."""
    from grader import notebook  # not earlier: this is imported in every rank

    notebook.load(shell)


def unload_ipython_extension(shell: object) -> None:
    """`%unload_ext grader`."""
    from grader import notebook

    notebook.unload(shell)
