"""list, show, hint, explain, quiz, watch and progress, as far as the command line is concerned."""

from __future__ import annotations

import json

from click.testing import CliRunner

from grader.cli import cli
from grader.grading.request import Request
from grader.model import Finding, Outcome
from grader.practice import statement
from tests.commands import DONE, MANIFEST, begin, call, refused
from tests.fakes import FakeSession


def test_list_shows_number_title_points_time_and_what_is_begun(root):
    (root / "exercises/02_ring/ring.py").write_text(DONE.replace("add(", "ring("))
    result = call("list")
    assert result.exit_code == 0
    _, first, second = (line.split() for line in result.stdout.splitlines())
    assert first == ["01", "Add", "[across]", "the", "ranks", "100", "25", "min"]
    assert second[-1] == "begun"


def test_list_says_what_was_passed_whatever_the_file_holds_now(fake, root):
    begin(root)
    call("grade", "1")
    assert call("list").stdout.splitlines()[1].split()[-1] == "passed"


def test_list_shows_the_others_beside_a_faulty_one(root):
    (root / "exercises/01_add/exercise.yaml").write_text("titel: x\n")
    result = call("list")
    assert "exercise.yaml" in refused(result, 3)
    assert "02" in result.stdout
    assert "at fault" in result.stdout


def test_show_gives_the_markdown_in_a_pipe(root):
    assert call("show", "1").stdout == "# Adding\n\nAdd *across* the ranks.\n"


def test_show_without_a_statement_names_the_file(root):
    (root / "exercises/01_add/README.md").unlink()
    assert "README.md" in refused(call("show", "1"), 3)


def test_each_hint_says_more_than_the_one_before(root):
    told = [call("hint", "1").stdout.splitlines()[2].strip() for _ in range(3)]
    assert told == ["think of sums", "think of rings", "call all_reduce"]
    assert call("hint", "1", "--level", 1).stdout.startswith("Hint 1 of 3 for 01_add as a whole\n\n  think of sums\n")


def test_a_hint_is_for_the_check_that_fails_now(fake, root):
    """The file is graded first, as it has changed since the last time; the second hint does not grade again."""
    manifest = root / "exercises/01_add/exercise.yaml"
    manifest.write_text(MANIFEST.replace("points: 60", "points: 60\n    hints: [a, b, c]"))
    begin(root)
    fake.outcome = Outcome.FAILED
    assert "for “It adds”\n\n  a\n" in call("hint", "1").stdout
    assert "for “It adds”\n\n  b\n" in call("hint", "1").stdout
    assert len(fake.asked) == 1


def test_a_hint_says_what_the_run_itself_hints_at(fake, root):
    """A deadlock's hint is in the hint as it is on the page."""
    manifest = root / "exercises/01_add/exercise.yaml"
    manifest.write_text(MANIFEST.replace("points: 60", "points: 60\n    hints: [a, b, c]"))
    begin(root)
    fake.outcome, fake.findings = Outcome.FAILED, (Finding(subject="Deadlock", hint="All in one order."),)
    assert "Seen in the run: All in one order.\n\nHint 1 of 3 for “It adds”" in call("hint", "1").stdout


def test_a_finished_exercise_has_no_hint_and_that_is_no_mistake(fake, root):
    (root / "exercises/01_add/add.py").write_text("def add(rank): return 3\n")
    result = call("hint", "1")
    assert result.exit_code == 0 and result.stdout == "Every check of 01_add passes; there is nothing to hint at.\n"


def test_hints_come_also_where_no_progress_can_be_written(fake, root, monkeypatch):
    """They are asked for by their level then."""
    (root / "blocked").touch()
    monkeypatch.setenv("RANKLINGS_DATA", str(root / "blocked"))
    result = call("hint", "1")
    assert result.exit_code == 0 and 'make hint EX=01 ARGS="--level 2"' in result.stdout
    assert "cannot be used" in result.stderr and "Nothing of this call is kept" in result.stderr
    assert call("hint", "1", "--level", "2").stdout.startswith("Hint 2 of 3")
    assert call("list").exit_code == 0 and "0 of 2 passed" in call("progress").stdout


def test_an_attempt_at_ones_own_file_is_kept_and_one_at_another_is_not(fake, root):
    begin(root)
    call("grade", "1")
    call("grade", "1", "--submission", "exercises/02_ring/../01_add/add.py")
    (root / "other").mkdir()
    (root / "other/add.py").write_text("def add(): ...\n")
    call("grade", "1", "--submission", "other")
    first, second = json.loads(call("progress", "--json").stdout)["exercises"]
    assert (first["attempts"], first["until_pass"], second["attempts"]) == (2, 1, 0)


def test_progress_that_cannot_be_kept_costs_nobody_the_verdict(fake, root, monkeypatch):
    (root / "blocked").touch()
    monkeypatch.setenv("RANKLINGS_DATA", str(root / "blocked"))
    result = call("grade", "1")
    assert result.exit_code == 0 and "This attempt is not in your progress" in result.stderr
    monkeypatch.setenv("RANKLINGS_DATA", "off")
    assert "progress" not in call("grade", "1").stderr


def test_where_nothing_is_to_be_kept_nothing_is(fake, root, monkeypatch):
    monkeypatch.setenv("RANKLINGS_DATA", "off")
    before = set(root.iterdir())
    assert call("hint", "1").exit_code == 0 and call("hint", "1").stdout.startswith("Hint 1 of 3")
    assert "0 of 2 passed" in call("progress").stdout
    assert set(root.iterdir()) == before


def test_progress_is_forgotten_on_request_only(fake, root):
    call("grade", "1")
    assert "asks before it does that" in refused(call("progress", "--delete"))
    assert call("progress", "--delete", "--yes").exit_code == 0
    assert "0 of 2 passed" in call("progress").stdout


def test_the_solution_is_shown_after_a_pass_or_with_a_clear_word(fake, root):
    folder = root / "reference/01_add"
    folder.mkdir(parents=True)
    (folder / "add.py").write_text("def add(rank): return sum\n")
    (folder / "variants").mkdir()
    (folder / "variants" / "by_hand.py").write_text("def add(rank): return 3\n")
    assert "You have not passed 01_add yet" in refused(call("show", "1", "--solution"))
    assert "return sum" in call("show", "1", "--solution", "--spoil").stdout
    call("grade", "1")
    shown = call("show", "1", "--solution").stdout
    assert "return sum" in shown and "Another way to be right: by hand" in shown and "return 3" in shown
    assert "No solution of 02_ring is in this copy" in refused(call("show", "2", "--solution"))


BANK = """\
title: Overlap
order: 1
questions:
  - id: why
    kind: choice
    difficulty: 1
    exercise: "01"
    question: Why does communication overlap backward?
    options:
      - right: Buckets are ready early
      - {wrong: Gloo guesses them, why: it does not}
      - {wrong: Forward sends them, why: it has none}
    explanation: A bucket is sent once its gradients are complete.
"""


def test_a_quiz_asks_and_keeps_what_was_answered(root):
    (root / "quizzes").mkdir()
    (root / "quizzes/overlap.yaml").write_text(BANK)
    assert "Overlap" in call("quiz", "--list").stdout
    result = CliRunner().invoke(cli, ["quiz", "--plain"], input="a\nq\n")
    assert result.exit_code == 0 and "Why does communication overlap backward?" in result.stdout
    assert "1 asked" in result.stdout and "Met so far: 1 of 1." in result.stdout
    assert "overlap" in refused(call("quiz", "overlop"))


def test_watch_goes_on_with_what_comes_next_and_keeps_its_attempts(fake, root, monkeypatch):
    from grader.practice import watch

    asked = []

    def run(name, where, *, on_report, **how):
        asked.append((name, how["plain"], how["seed"]))
        on_report(fake(Request(exercise=name, root=where), FakeSession()))
        return 0

    monkeypatch.setattr(watch, "run", run)
    assert call("watch", "--plain", "--seed", 3).exit_code == 0
    assert call("watch", "2").exit_code == 0
    assert asked == [("01_add", True, 3), ("02_ring", False, None)]
    assert [each["attempts"] for each in json.loads(call("progress", "--json").stdout)["exercises"]] == [1, 1]


def test_without_banks_a_quiz_says_so(root):
    assert "No question banks are in this copy" in refused(call("quiz"))


def test_explain_tells_why_what_fails_matters(fake, root):
    manifest = root / "exercises/01_add/exercise.yaml"
    manifest.write_text(MANIFEST.replace("points: 60", 'points: 60\n    why: "Sums rule."\n    section: Adding'))
    begin(root)
    fake.outcome = Outcome.FAILED
    page = call("explain", "1").stdout
    assert "It adds\n  Sums rule.\n  Read “Adding” in exercises/01_add/README.md." in page and "It is tidy" not in page
    assert "It is tidy" in call("explain", "1", "--all").stdout


def test_an_exercise_without_hints_says_so(root):
    manifest = root / "exercises/01_add/exercise.yaml"
    manifest.write_text("".join(line for line in MANIFEST.splitlines(True) if not line.startswith("hints")))
    assert "has no hints of its own" in refused(call("hint", "1"))


def test_a_table_of_a_statement_keeps_what_its_cells_hold_on_a_narrow_terminal():
    row = "| `dist.all_gather_object(objects, thing)` | the same for any Python object; N places |"
    table = f"| call | what |\n|---|---|\n{row}\n"
    page = statement.rendered(table, color=False, width=50)
    assert "…" not in page and "thing)" in "".join(page.split())
