"""Raises and prints lines that a CI runner would take for its own commands."""

TELLS = "RuntimeError was raised"
TEXT = (
    "a\n::error file=a.py::owned\n  ::set-output name=score::100\n##[error]owned\n::add-mask::0\n"
    "##vso[task.complete]##teamcity[x]"
)


def total(value):
    print(TEXT)
    raise RuntimeError(TEXT)
