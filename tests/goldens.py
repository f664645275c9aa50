"""Golden files: what a renderer made once, looked at by a person, and must make again.

RANKLINGS_UPDATE_GOLDEN=1 writes them anew; read the difference before it is committed.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """Fails unless `text` is exactly what tests/golden/`name` holds."""
    path = FOLDER / name
    if os.environ.get("RANKLINGS_UPDATE_GOLDEN") == "1":
        path.write_bytes(text.encode("utf-8"))
    assert path.exists(), f"{path.name} is missing; RANKLINGS_UPDATE_GOLDEN=1 writes it"
    assert text == path.read_bytes().decode("utf-8"), f"{path.name} differs; RANKLINGS_UPDATE_GOLDEN=1 writes it anew"
