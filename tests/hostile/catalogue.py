"""The attacks of this folder as values: what each file says of itself, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
MACHINERY = {"arena", "catalogue", "course", "harm", "table"}
LEVELS = ("limits", "bubblewrap")
WORDS = ("passed", "uncounted", "failed", "error", "refused", "crashed", "hung", "killed the judge")
"""What may come of a grade. Uncounted: a mark, with a check left out as the grader's fault. Error: no mark."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One hostile file, or a control. The upper-case constants at its top say how it is handed in and what comes of it.

    `outcome` is what comes of it at each level that stops it, and `tells` what the student then reads. `below` is what
    comes of it at the limits level where only bubblewrap stops it. `real` asks for an exercise of this repository in
    place of the tiny one.
    """

    name: str
    title: str
    source: str
    outcome: str = "failed"
    tells: str = ""
    stopped_by: str = "limits"
    below: str = ""
    hand_in: str = "file"
    beside: Mapping[str, str] = field(default_factory=dict)
    grades: int = 1
    deadline: float = 20
    exercise_name: str = "91_total"
    file: str = "total.py"
    real: bool = False
    needs_limits: bool = False
    alone: bool = False

    def stopped_at(self, level: str) -> bool:
        return level == "bubblewrap" or self.stopped_by == "limits"

    def expected(self, level: str) -> list[str]:
        """What may come of it at a level: a word of WORDS each, and after commas the harm that is done."""
        return (self.outcome if self.stopped_at(level) else self.below).split(" or ")


def attack(path: Path) -> Attack:
    source = path.read_text()
    tree = ast.parse(source)
    title = (ast.get_docstring(tree) or "").partition("\n")[0]
    return Attack(name=path.stem, title=title, source=source, **_constants(tree))


def _constants(tree: ast.Module) -> dict[str, Any]:
    """The constants of the file that are fields of an attack."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.isupper() and name.lower() in Attack.__dataclass_fields__:
                found[name.lower()] = ast.literal_eval(node.value)
    return found


def attacks() -> tuple[Attack, ...]:
    return tuple(attack(path) for path in _files() if not path.stem.endswith("_control"))


def control_of(name: str) -> Attack:
    return attack(FOLDER / f"{name}_control.py")


def controls() -> tuple[Attack, ...]:
    return tuple(attack(path) for path in _files() if path.stem.endswith("_control"))


def _files() -> list[Path]:
    return [path for path in sorted(FOLDER.glob("*.py")) if path.stem not in MACHINERY]
