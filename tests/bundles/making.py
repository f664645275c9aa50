"""make and the names of files in a bundle."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests import small

SOLUTION = small.FILES["reference/90_total/total.py"]
AS_IT_IS = [f"VENV={sys.prefix}", "-o", f"{sys.prefix}/.ready"]
"""What makes `make` use this environment and leave it alone."""
MAKES = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS", "EX", "SUBMISSION")
SECRETS = ("reference", "mutants.yaml", "variants", "tests/hostile", "authoring")


def fresh(**more: str) -> dict[str, str]:
    """The environment without what a `make` above, which may run these tests, has left in it."""
    return {**{name: value for name, value in os.environ.items() if name not in MAKES}, **more}


def names(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
