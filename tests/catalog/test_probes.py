"""What a probe asks of the student's file, and what the manifest promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import catalog
from grader.model.errors import AuthorError
from tests import small


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rank.record('a', rank.student.totl(1))", "totl, which `requires` does not name. Did you mean 'total'?"),
        ("student = rank.student; student.other", "asks for other, which `requires`"),
        ("rank.student.total(1, 2)", "total(value): too many positional arguments"),
        ("rank.attempt(rank.student.total)", "total(value): missing a required argument: 'value'"),
        ("rank.attempt(rank.student.total, 1, norm=2)", "unexpected keyword argument 'norm'"),
        ("rank.student.total(1); rank.student.total(*many); rank.student.__file__", ""),
    ],
)  # fmt: skip
def test_a_probe_asks_for_what_the_manifest_promises(tmp_path: Path, line: str, said: str) -> None:
    """Otherwise the first who hears of it is a student. The fault is told with the probe's line."""
    exercise = catalog.load(small.NAME, small.build(tmp_path))
    catalog.check_calls(exercise)
    text = exercise.probe.read_text()
    exercise.probe.write_text(f"{text}\n\ndef more(rank, many):\n    {line}\n")
    if not said:
        return catalog.check_calls(exercise)
    with pytest.raises(AuthorError) as caught:
        catalog.check_calls(exercise)
    assert said in str(caught.value)
    assert (caught.value.path.name, caught.value.line) == ("probe.py", len(text.splitlines()) + 4)


def test_what_is_promised_and_never_asked_for_is_a_fault(tmp_path: Path) -> None:
    """A name that no case tries is not graded."""
    root = small.build(tmp_path)
    manifest = root / "exercises" / small.NAME / "exercise.yaml"
    manifest.write_text(manifest.read_text().replace("total: (value)", "total: (value)\n  mean: (value)"))
    with pytest.raises(AuthorError, match=r"`requires` names mean, and probe\.py never asks for it"):
        catalog.check_calls(catalog.load(small.NAME, root))
