"""The page of the course, with the figures that a person's own passing code draws."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest

from grader import catalog
from grader.model import Case, Exercise, Finished, RankRecord, RequiredName, Run, Submission
from grader.model.errors import RunError
from grader.practice import course_page, pictures
from grader.practice.history import Standing
from grader.practice.pictures import PNG, Picture
from grader.ranks import Session
from tests.attempts import COURSE, NOW, attempt

ROOT = Path(__file__).resolve().parents[1]
DRAWING = replace(
    COURSE[2], requires=tuple(RequiredName(name=name) for name in ("cost", "cost_figure", "shares_figure"))
)
SUBMISSION = Submission.of(Path("train.py"), b"")


class Drawn:
    """A session whose rank records what a test says."""

    def __init__(self, **found: object) -> None:
        self._found = found

    def run(self, exercise: Exercise, submission: Submission, case: Case) -> Run:
        assert case.parameters == {"functions": ["cost_figure", "shares_figure"]} and case.world_size == 1
        return Run(case=case, ranks=(RankRecord(rank=0, ending=Finished(), observations=self._found),), seconds=1.0)


def test_what_is_no_png_is_told_as_missing_and_costs_the_others_nothing() -> None:
    """A rank may send anything under the name of a figure."""
    sent: tuple[object, ...] = (b"<svg onload=alert(1)>", "text", None, 7)
    for odd in sent:
        first, second = pictures.drawn(DRAWING, SUBMISSION, Drawn(cost_figure=PNG + b"1", shares_figure=odd))
        assert (first.title, first.png, first.missing) == ("Cost", PNG + b"1", "")
        assert second.png == b"" and second.missing.startswith("not drawn (")


class Broken:
    """A session of a machine that is at fault."""

    def run(self, exercise: Exercise, submission: Submission, case: Case) -> Run:
        raise RunError("The host has gone.")


def test_why_a_figure_is_missing_is_told() -> None:
    """What it raised, without what could paint over a screen, or what is wrong with the machine."""
    [first, second] = pictures.drawn(DRAWING, SUBMISSION, Drawn(cost_figure="no \x1b[2J points " + "x" * 900))
    assert "no " in first.missing and "\x1b" not in first.missing and len(first.missing) < 400
    assert second.missing == "not drawn (nothing was recorded)"
    broken = pictures.drawn(DRAWING, SUBMISSION, Broken())
    assert [each.missing for each in broken] == ["not drawn (The host has gone.)"] * 2


def test_only_code_that_has_passed_as_it_is_now_draws() -> None:
    found = [Standing(exercise=DRAWING), Standing(exercise=COURSE[0])]
    name = DRAWING.name
    good, bad = attempt(name, "passed"), attempt(name, "failed")
    assert list(pictures.passing(found, [good], {name: good.digest})) == [DRAWING]
    assert list(pictures.passing(found, [good], {name: "other"})) == []
    assert list(pictures.passing(found, [bad], {name: bad.digest})) == []
    assert list(pictures.passing(found, [good], {})) == []


def test_the_page_tells_what_the_map_tells_and_holds_its_pictures() -> None:
    found = [
        Standing(exercise=replace(COURSE[0], title="Join <b>"), attempts=2, best=100, until_pass=2, passed_at=NOW),
        Standing(exercise=COURSE[1], attempts=1, best=40, last_at=NOW),
        Standing(exercise=DRAWING),
    ]
    shown = [
        Picture(exercise="03", title="Cost", png=PNG + b"1"),
        Picture(exercise="03", title="Shares", missing="why"),
    ]
    page = course_page.html(found, NOW, shown)
    assert "1 of 3 exercises passed" in page and "Go on with: 02" in page and "Join &lt;b&gt;" in page
    assert "Part 1 · Data parallel training" in page and "passed on try 2, just now" in page and "40 %" in page
    assert base64.b64encode(PNG + b"1").decode() in page and "Shares, exercise 03: why" in page
    assert page.count("<img") == 1 and "<script" not in page and "http://" not in page
    assert "<img" not in course_page.html(found, NOW, ())


@pytest.mark.one_in(3)
def test_the_solution_of_the_cost_model_draws_its_two_figures(warm: Session) -> None:
    name = catalog.resolve("19", ROOT)
    exercise = catalog.load(name, ROOT)
    path = catalog.reference(name, ROOT) / exercise.file
    found = pictures.drawn(exercise, Submission.of(path, path.read_bytes()), warm)
    assert [each.title for each in found] == ["All reduce overhead", "Scaling efficiency"]
    assert all(each.png.startswith(PNG) and len(each.png) > 10_000 for each in found)
