"""The table of attacks in docs/security.md, from what the attacks' files declare and tests/test_hostile.py asserts.

python -m tests.hostile.table --write
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.hostile.catalogue import Attack, attacks

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN, END = "<!-- attacks: begin -->", "<!-- attacks: end -->"
MEANING = {"failed": "failed check", "error": "error", "refused": "refused"}


def table() -> str:
    """One row an attack."""
    head = ["| attack | what it tries | resource limits alone | bubblewrap |", "|---|---|---|---|"]
    return "\n".join([*head, *map(_row, attacks())])


def _row(attack: Attack) -> str:
    name = f"[{attack.name}](../tests/hostile/{attack.name}.py)"
    return f"| {name} | {attack.title} | {_outcome(attack, 'limits')} | {_outcome(attack, 'bubblewrap')} |"


def _outcome(attack: Attack, level: str) -> str:
    expected = attack.expected(level)
    if attack.stopped_at(level):
        return " or ".join(MEANING[word] for word in expected)
    return f"**not stopped**: {' or '.join(expected)}"


def renewed(page: str) -> str:
    """The page with the table as it is now between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(renewed(PAGE.read_text()))
    else:
        print(table())
