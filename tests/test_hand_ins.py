"""Whose hand-in it is: folders by hand and the exports of platforms."""

from __future__ import annotations

import pytest

from grader.batch.hand_ins import find


def test_the_exports_of_platforms_are_read_as_they_come(tmp_path):
    """Canvas' flat files by the user's number, Moodle's folders by the name, Gradescope's with its metadata."""
    canvas = tmp_path / "canvas"
    canvas.mkdir()
    for name in ("doejohn_4711_815_total.py", "doejohn_4711_816_total-1.py", "roejane_LATE_12_9_total.py"):
        (canvas / name).write_text(name)
    john, jane = sorted(find(canvas), key=lambda one: one.who, reverse=True)
    assert (john.who, jane.who) == ("4711", "12") and "late" in jane.note
    assert john.files["total.py"].name == "doejohn_4711_816_total-1.py"
    moodle = tmp_path / "moodle"
    (moodle / "Ada Lovelace_4711_assignsubmission_file").mkdir(parents=True)
    assert [one.who for one in find(moodle)] == ["Ada Lovelace"]
    scope = tmp_path / "scope"
    (scope / "submission_1").mkdir(parents=True)
    (scope / "submission_metadata.yml").write_text(
        "submission_1:\n  :submitters:\n  - :name: Ada\n    :sid: '1'\n    :email: ada@x.org\n"
        "  - :name: Bob\n    :sid: '2'\n    :email: bob@x.org\n  :created_at: 2026-10-12 10:00:00.5 Z\n"
    )
    ada, bob = find(scope)
    assert (ada.who, bob.who) == ("ada@x.org", "bob@x.org") and ada.submitted_at.hour == 10
    (scope / "submission_metadata.yml").write_text("submission_1: [1]\n")
    with pytest.raises(Exception, match="not as Gradescope exports it"):
        find(scope)


def test_files_of_one_exercise_may_lie_side_by_side(tmp_path):
    (tmp_path / "ada.py").write_text("x = 1\n")
    assert [one.who for one in find(tmp_path, "total.py")] == ["ada"]
