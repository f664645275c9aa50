"""Digests of what a grade or a proof rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grader import catalog
from grader.records import digests
from tests import small

MODULES = ("kit/values.py", "checks/views.py", "ranks/host.py", "judge/panel.py", "cli/list.py", "render/html.py")


def test_a_digest_takes_in_what_probes_and_checks_share(root: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """A changed comparer is another exercise to a journal, and a changed engine another proof; a page is not."""
    exercise = catalog.load(small.NAME, root)
    package = tmp_path / "grader"
    monkeypatch.setattr(digests, "PACKAGE", package)
    for name in MODULES:
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1")
    before = [digests.of_exercise(exercise), digests.of_engine()]
    differs = {}
    for name in MODULES:
        (package / name).write_text("2")
        now = [digests.of_exercise(exercise), digests.of_engine()]
        differs[name] = [old != new for old, new in zip(before, now, strict=True)]
        (package / name).write_text("1")
    assert differs == {
        "kit/values.py": [True, True],
        "checks/views.py": [True, True],
        "ranks/host.py": [False, True],
        "judge/panel.py": [False, True],
        "cli/list.py": [False, False],
        "render/html.py": [False, False],
    }


def test_contents_that_run_together_have_different_digests() -> None:
    """Where one ends and the next begins counts."""
    assert digests.of_files([("a", b"bc"), ("d", b"")]) != digests.of_files([("a", b"b"), ("cd", b"")])
