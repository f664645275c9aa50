"""A course's own, hidden checks for the small exercise (tests/small.py)."""

from __future__ import annotations

from pathlib import Path

HIDDEN = {
    "exercise.yaml": """\
cases:
  larger: {world_sizes: [4], probe: sum, process_group: true}
checks:
  sums_of_four: {points: 15, needs: [sums]}
  shown_too: {points: 5, visibility: visible}
""",
    "checks.py": '''\
def test_sums_of_four(runs, probe):
    """Four ranks get the sum"""
    for run in runs("larger"):
        expected = sum(probe.value(run.seed, rank) for rank in range(run.world_size))
        run.expect_close(run[0]["total"], expected, "the total")


def test_shown_too(runs):
    """Four ranks run at all"""
    runs("larger")
''',
}


def written(folder: Path, **changes: str) -> Path:
    """A folder of them; `checks="old→new"` changes the file of that name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in HIDDEN.items():
        old, new = changes.get(name.partition(".")[0], "→").split("→")
        (folder / name).write_text(text.replace(old, new) if old else text)
    return folder
