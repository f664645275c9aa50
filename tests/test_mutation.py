"""Automatic mutants: what the operators make of a source, how mutants are called, tried, excused and counted."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from grader import catalog
from grader.authoring.lab import solution_of
from grader.authoring.mutation import state
from grader.authoring.mutation.distributed import SCOPED
from grader.authoring.mutation.generate import AutoMutant, diff, mutants
from grader.authoring.mutation.runner import (
    FACTOR,
    LEAST_SECONDS,
    MutantOutcome,
    MutantRunner,
    TriedMutant,
    judge_partly,
)
from grader.authoring.mutation.score import Score, Subject, attack, load, page, summary
from grader.cli import cli
from grader.model import (
    Case,
    Deadlocked,
    Diagnosis,
    Finding,
    Outcome,
    Run,
    Submission,
    TimedOut,
    Wait,
)
from grader.model.errors import AuthorError, RunError, UsageError
from tests import small
from tests.fakes import FakeSession, right

ROOT = Path(__file__).parents[1]


def plain(source: str) -> list[AutoMutant]:
    """The mutants of all operators but those that know distributed code (test_mutation_distributed.py)."""
    scoped = {name for name, _, _ in SCOPED}
    return [mutant for mutant in mutants(source) if mutant.operator not in scoped]


def made(source: str, operator: str) -> list[str]:
    """The sources that an operator makes, without the line ends at their end."""
    return [mutant.source.rstrip("\n") for mutant in mutants(source) if mutant.operator == operator]


# --- operators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "source", "wanted"),
    [
        ("drop-statement", "f(); x = 1", ["pass; x = 1", "f(); pass"]),
        ("drop-statement", "x: int\ny: int = f()", ["x: int\npass"]),
        ("drop-statement", "raise E", ["pass"]),
        ("return-none", "def f(): return x", ["def f(): return None"]),
        ("return-none", "def f(): return", []),
        ("swap-break", "while x: break", ["while x: continue"]),
        ("unwrap-with", "with a:\n    b()\n    c()", ["b()\nc()"]),
        ("unwrap-with", "with a as b: c()", ["b = a.__enter__()\nc()"]),
        ("unwrap-with", "with a, b:\n    c()", ["with b:\n    c()", "with a:\n    c()"]),
        ("unwrap-with", "with a as b, c as d:\n    e()", ["b = a.__enter__()\nwith c as d:\n    e()"]),
        ("unwrap-try", "try:\n    a()\nfinally:\n    b()", ["a()\nb()"]),
        ("unwrap-try", "try:\n    a()\nexcept E:\n    b()", ["a()"]),
        ("negate", "if a:\n    b()", ["if not a:\n    b()"]),
        ("negate", "if not a:\n    b()", ["if a:\n    b()"]),
        ("negate", "while(a < b):\n    c()", ["while not (a < b):\n    c()"]),
        ("negate", "x = a if b and c else d", ["x = a if not (b and c) else d"]),
        ("negate", "x = [a for a in b if a]", ["x = [a for a in b if not a]"]),
        ("negate", "assert a, b", ["assert not a, b"]),
        ("negate", "if a == b:\n    c()", []),
        ("and-or", "x = a and b", ["x = (a or b)", "x = (a)", "x = (b)"]),
        ("comparison", "x = 0 <= a < b", ["x = 0 < a < b", "x = 0 <= a <= b"]),
        ("comparison", "x = a is not None", ["x = a is None"]),
        ("comparison", "x = a in b", ["x = a not in b"]),
        ("drop-unary", "x = -a", ["x = (a)"]),
        ("constant", "x = 1", ["x = 2", "x = 0"]),
        ("constant", "x = 0", ["x = 1", "x = -1"]),
        ("constant", "x = 0.5", ["x = 1.0"]),
        ("constant", "x = True", ["x = False"]),
        ("constant", "f(None)", ["f(0)"]),
        ("constant", "x = a is None", []),
        ("constant", "x = b'a'", ["x = b'XXa'"]),
        ("arithmetic", "x = (a + b - 1) // c", ["x = (a + b - 1) / c", "x = (a + b + 1) // c", "x = (a - b - 1) // c"]),
        ("arithmetic", "x *= a", ["x /= a"]),
        ("shift-index", "x = a[i]", ["x = a[i + 1]"]),
        ("shift-index", "x = a[i - 1:, j]", ["x = a[(i - 1) + 1:, j]", "x = a[i - 1:, j + 1]"]),
        ("shift-index", "x = a[0]", []),
        ("swap-arguments", "f(a, b, *c, d=e)", ["f(b, a, *c, d=e)"]),
        ("drop-keyword", "f(a, b=c, d=e)", ["f(a, d=e)", "f(a, b=c)"]),
        ("drop-default", "def f(a, *, b=1): g()", ["def f(a, *, b): g()"]),
        ("drop-decorator", "@a\n@b\ndef f(): g()", ["@b\ndef f(): g()", "@a\ndef f(): g()"]),
    ],
)
def test_an_operator_makes_exactly_these(operator: str, source: str, wanted: list[str]) -> None:
    """One small fault each, in the author's own layout."""
    assert made(source, operator) == wanted


SOURCE = '''\
"""A module."""
import os
from typing import Optional


class Sampler(Base[int]):
    """A class."""

    size: Optional[int]

    def __len__(self) -> "int":
        """A method."""
        return self.size  # it is 3

    def check(self, rank: int) -> None:
        if rank < 0:
            raise ValueError("rank must not be negative" f"{rank}")
        ...
'''


def test_what_is_no_code_is_left_alone() -> None:
    """Docstrings, comments, annotations, imports, base classes and the wording of what is raised."""
    assert sorted(mutant.identity for mutant in plain(SOURCE)) == [
        "comparison | Sampler.check | if rank < 0: | rank < 0 -> rank <= 0",
        "constant | Sampler.check | if rank < 0: | 0 -> -1",
        "constant | Sampler.check | if rank < 0: | 0 -> 1",
        "drop-statement | Sampler.__len__ | return self.size",
        'drop-statement | Sampler.check | raise ValueError("rank must not be negative" f"{rank}")',
        "negate | Sampler.check | if rank < 0: | rank < 0 -> not (rank < 0)",
        "return-none | Sampler.__len__ | return self.size",
    ]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", catalog.all_names(ROOT))
def test_every_mutant_of_a_solution_is_another_program_with_a_name_of_its_own(name: str) -> None:
    """It compiles, no two are the same program or are called alike, and none is the solution."""
    path = solution_of(catalog.load(name, ROOT), ROOT)
    found = mutants(path.read_text())
    programs = {ast.dump(ast.parse(source)) for source in (path.read_text(), *(m.source for m in found))}
    assert len(programs) == len(found) + 1 > 20
    assert len({mutant.identity for mutant in found}) == len(found)


def test_a_name_lives_through_edits_elsewhere() -> None:
    """Lines may be added, comments changed, other functions mended."""
    edited = SOURCE.replace("import os\n", "import os\nimport sys\n").replace("it is 3", "it was 2")
    before, after = mutants(SOURCE), mutants(edited + "\n\ndef more():\n    return 1\n")
    assert [mutant.identity for mutant in after[: len(before)]] == [mutant.identity for mutant in before]
    assert after[0].line == before[0].line + 1


def test_equal_names_are_numbered() -> None:
    """The second of two equal statements of one function is #2."""
    found = [mutant.identity for mutant in plain("def f():\n    g()\n    g()\n")]
    assert found == ["drop-statement | f | g()", "drop-statement | f | g() | #2"]


def test_a_mutant_tells_what_it_does() -> None:
    """To a reader in a sentence, and as the lines of a diff."""
    source = "def f(sampler, epoch):\n    sampler.set_epoch(epoch)  # anew\n"
    (mutant,) = plain(source)
    assert mutant.description == "drops `sampler.set_epoch(epoch)` in f, line 2"
    lines = ["@@ -2 +2 @@", "-    sampler.set_epoch(epoch)  # anew", "+    pass  # anew"]
    assert diff(mutant).splitlines() == lines


# --- equivalents.yaml ------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small.build(tmp_path)


def excuse(root: Path, text: str) -> None:
    (root / "reference" / small.NAME / "equivalents.yaml").write_text(text)


def equivalents(root: Path) -> tuple[catalog.Equivalent, ...]:
    return catalog.load_equivalents(catalog.load(small.NAME, root), root)


def test_equivalents_are_a_list_with_reasons(root: Path) -> None:
    """No file, no entries; a name may have … for any text, and hold only where there is no GPU."""
    assert equivalents(root) == ()
    excuse(root, "- {mutant: 'a | [b] *', reason: It is.}\n- {mutant: 'c… | d…', reason: It is., where: cuda}\n")
    exact, pattern = equivalents(root)
    assert exact.matches("a | [b] *") and not exact.matches("a | b ") and not exact.needs_gpu
    assert pattern.matches("constant | def | 1") and not pattern.matches("a constant | def") and pattern.needs_gpu
    assert pattern.line == 2


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("- mutant: a\n", 1, "the key 'reason' is missing"),
        ("- mutant: a\n  reason:\n", 2, "reason"),
        ("- mutant: a\n  reason: ' '\n", 2, "must not be empty"),
        ("- mutant: a\n  reason: b\n  why: c\n", 3, "unknown key 'why'"),
        ("- mutant: a\n  reason: b\n  where: linux\n", 3, "where"),
        ("- {mutant: a, reason: b}\n- {mutant: a, reason: c}\n", 2, "the mutant stands twice. Line 1"),
        ("mutant: a\n", 1, "list"),
    ],
)
def test_a_fault_in_the_equivalents_is_told_with_its_line(root: Path, text: str, line: int, said: str) -> None:
    """As for mutants.yaml."""
    excuse(root, text)
    with pytest.raises(AuthorError, match=said) as caught:
        equivalents(root)
    assert (caught.value.path.name, caught.value.line) == ("equivalents.yaml", line)


# --- judging what there is -------------------------------------------------------------------------------------------


def test_a_check_waits_for_all_the_runs_that_it_wants(root: Path) -> None:
    """It is skipped until then, except that a run in which a rank did not finish fails it at once."""
    exercise = catalog.load(small.NAME, root)
    submission = Submission(path=Path("total.py"), source=b"", digest="")
    one = torch.full((4,), 1.0, dtype=torch.float64)

    def judged(*runs: object) -> list[Outcome]:
        return [verdict.outcome for verdict in judge_partly(exercise, submission, runs)]

    good = small.sum_run(1, one)
    assert judged(good) == [Outcome.SKIPPED, Outcome.SKIPPED, Outcome.SKIPPED]
    assert judged(small.bad_run(), good) == [Outcome.SKIPPED, Outcome.SKIPPED, Outcome.FAILED]
    waits = Deadlocked(wait=Wait(operation="all_reduce"))
    stuck = Diagnosis(kind="deadlock", ranks=(0,), findings=(Finding(subject="waits"),))
    run = replace(small.sum_run(1, None, ending=waits), diagnosis=stuck)
    assert judged(run) == [Outcome.FAILED, Outcome.BLOCKED, Outcome.SKIPPED]


# --- the score -------------------------------------------------------------------------------------------------------


def scored(root: Path, fates: dict[str, MutantOutcome], *, gpu: bool = False) -> Score:
    """A score of the small exercise in which these mutants had these fates and all others were killed."""
    subject = load(small.NAME, root)
    results = [
        TriedMutant(mutant=mutant, outcome=fates.get(mutant.identity, MutantOutcome.KILLED), seed=7, by="sums")
        for mutant in subject.mutants
    ]
    assert fates.keys() <= {mutant.identity for mutant in subject.mutants}
    return Score(subject=subject, control=(), results=tuple(results), gpu=gpu, seconds=2.0)


REDUCES, CLONES = "drop-statement | total | dist.all_reduce(result)", "drop-statement | total | result = value.clone()"


def test_a_survivor_is_a_breach_and_lowers_the_score(root: Path) -> None:
    """The page shows it as an author needs it: what it is, its diff, and an entry to paste."""
    assert scored(root, {}).breaches() == [] and scored(root, {}).percent == 100
    score = scored(root, {REDUCES: MutantOutcome.SURVIVED})
    number = len(score.results)
    assert score.breaches() == [f"survives: {REDUCES}"]
    assert score.percent == pytest.approx(100 * (number - 1) / number)
    text = page(score)
    assert "-    dist.all_reduce(result)\n+    pass\n" in text and f"- mutant: '{REDUCES}'\n" in text
    assert f"1 survived: {number - 1}/{number} = " in text and text.splitlines()[-1].startswith("✗ 90_total")


def test_an_excused_survivor_does_not_count(root: Path) -> None:
    """Killed / non-equivalent."""
    excuse(root, f"- {{mutant: '{REDUCES}', reason: It is.}}\n")
    score = scored(root, {REDUCES: MutantOutcome.SURVIVED})
    assert score.breaches() == [] and score.percent == 100 and "1 equivalent" in summary(score)


def test_a_false_or_stale_excuse_is_a_breach(root: Path) -> None:
    """The list cannot rot."""
    excuse(root, f"- {{mutant: '{REDUCES}', reason: It is.}}\n- {{mutant: gone, reason: It was.}}\n")
    false, stale = scored(root, {}).breaches()
    assert "equivalents.yaml:1: listed as equivalent, but sums kills it (seed 7)" in false
    assert "equivalents.yaml:2: there is no such mutant any more" in stale


def test_an_excuse_for_want_of_a_gpu_holds_without_one_only(root: Path) -> None:
    """Where there is a GPU the mutant must be killed, and may be."""
    excuse(root, f"- {{mutant: '{REDUCES}', reason: Needs a GPU., where: cuda}}\n")
    assert scored(root, {REDUCES: MutantOutcome.SURVIVED}).breaches() == []
    assert scored(root, {REDUCES: MutantOutcome.SURVIVED}, gpu=True).breaches() == [f"survives: {REDUCES}"]
    assert scored(root, {}, gpu=True).breaches() == []


def test_a_broken_check_is_a_breach_and_no_kill(root: Path) -> None:
    """It is our fault."""
    score = scored(root, {REDUCES: MutantOutcome.BROKEN})
    assert len(score.breaches()) == 1 and "check sums is broken (seed 7) with" in score.breaches()[0]
    assert score.percent < 100


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_the_table_keeps_the_rows_of_others(root: Path) -> None:
    """Only the rows of what was tried are new; what stands around the table stays."""
    excuse(root, f"- {{mutant: '{CLONES}', reason: It is.}}\n")
    score = scored(root, {REDUCES: MutantOutcome.SURVIVED, CLONES: MutantOutcome.SURVIVED})
    other = "| 01_process_group | 1 | 1 | 0 | 0 | 0 | 100.0 % |"
    old = f"| exercise |\n|---|\n| 90_total | 0 | 0 | 0 | 0 | 0 | 0 % |\n{other}"
    text = state.tabulated(f"# Page\n{state.BEGIN}\n{old}\n{state.END}\nEnd\n", [score])
    count = score.subject.counts()[""]
    row = f"| 90_total | {count} | {count - 2} | 1 | 0 | 1 | {100 * (count - 2) / (count - 1):.1f} % |"
    assert text.startswith("# Page\n") and text.endswith(f"{other}\n{row}\n{state.END}\nEnd\n")
    assert state.tabulated(text, [score]) == text
    with pytest.raises(UsageError, match="lacks the lines"):
        state.tabulated("no markers", [score])


def test_the_file_keeps_the_fates_of_others(root: Path, tmp_path: Path) -> None:
    """A run of a selection renews what it tried; what the solution does not have any more goes."""
    path = tmp_path / "fates.json"
    assert state.read(path) == {}
    path.write_text(state.merged({small.NAME: {"gone": {}}}, [scored(root, {REDUCES: MutantOutcome.SURVIVED})]))
    assert state.survivors(state.read(path)[small.NAME]) == {REDUCES} and "gone" not in path.read_text()
    score = scored(root, {})
    one = replace(score, results=tuple(r for r in score.results if r.mutant.identity == REDUCES))
    path.write_text(state.merged(state.read(path), [one]))
    content = json.loads(path.read_text())["exercises"][small.NAME]
    assert len(content) == len(score.results) and content[REDUCES]["by"] == "sums"
    path.write_text("[]")
    with pytest.raises(UsageError, match="was not written by"):
        state.read(path)


def test_a_row_may_be_written_of_parts(root: Path, tmp_path: Path) -> None:
    """What the file knows counts beside what was tried now, and there is no row before all have been tried."""
    path = tmp_path / "fates.json"
    whole = scored(root, {REDUCES: MutantOutcome.SURVIVED})
    first, second = replace(whole, results=whole.results[:3]), replace(whole, results=whole.results[3:])
    path.write_text(state.merged({}, [first]))
    known = state.read(path)[small.NAME]
    assert summary(state.completed(second, known)) == summary(whole)
    with pytest.raises(UsageError, match="have not been tried"):
        state.completed(first, known)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--own"], "go with --auto"),
        (["--only", "x"], "go with --auto"),
        (["--auto", "--survivors"], "need --json FILE"),
        (["--auto", "--untried", "--json", "no_such_file.json"], "need --json FILE"),
        (["--auto", "--table", "page.md", "--only", "x"], "wants all mutants"),
        (["--auto", "--table", "no_such_page.md"], "There is no page"),
    ],
)
def test_an_order_that_means_nothing_is_refused(words: list[str], said: str) -> None:
    """Before anything is run."""
    result = CliRunner().invoke(cli, ["verify", *words])
    assert result.exit_code == 2 and said in result.output


# --- how mutants are tried -------------------------------------------------------------------------------------------


class Student:
    """What a source does is in its text: it may loop for ever, and `seconds` are what a run of the solution takes."""

    def __init__(self) -> None:
        self.seconds = 0.1

    def __call__(self, submission: Submission, case: Case) -> Run:
        source = submission.source.decode()
        if "unlucky" not in source:
            raise RunError("no memory")
        loops = "while False" not in source
        run = replace(right(submission, case), seconds=case.deadline if loops else self.seconds)
        if not loops or case.name != "sum":
            return run
        stopped = tuple(replace(record, ending=TimedOut()) for record in run.ranks)
        return replace(run, ranks=stopped, diagnosis=Diagnosis(kind="timeout", ranks=(0,), findings=()))


SOLUTION = "while False:\n    unlucky()\nwork()\n"


@pytest.fixture
def student() -> Student:
    return Student()


@pytest.fixture
def session(student: Student) -> FakeSession:
    return FakeSession(otherwise=student)


@pytest.fixture
def runner(root: Path, session: FakeSession) -> MutantRunner:
    runner = MutantRunner(session, catalog.load(small.NAME, root), Path("total.py"), 3)
    assert {verdict.outcome for verdict in runner.control(SOLUTION.encode())} == {Outcome.PASSED}
    session.cases.clear()
    return runner


def outcome_of(runner: MutantRunner, part: str) -> TriedMutant:
    chosen = [mutant for mutant in mutants(SOLUTION) if part in mutant.identity]
    (result,) = runner.try_all(chosen, lambda mutant: 2, lambda result: None)
    return result


def test_a_survivor_is_tried_with_two_seeds(runner: MutantRunner, session: FakeSession) -> None:
    """All cases of both, the import first."""
    assert outcome_of(runner, "work()").outcome is MutantOutcome.SURVIVED
    names = [case.name for case in session.cases]
    assert sorted(names) == ["bad", "bad", "import", "import", "sum", "sum", "sum", "sum"] and names[0] == "import"
    assert len({case.seed for case in session.cases if case.id == "sum[2]"}) == 2


def test_an_endless_loop_is_stopped_early(runner: MutantRunner, session: FakeSession) -> None:
    """Long before the case's deadline, and no other world size is run."""
    result = outcome_of(runner, "False -> True")
    assert (result.outcome, result.by) == (MutantOutcome.KILLED, "sums")
    (first, control) = [case for case in session.cases if case.name == "sum"]
    assert first == control and first.deadline == pytest.approx(LEAST_SECONDS + FACTOR * 0.1)


def test_a_time_out_on_a_machine_that_became_slow_does_not_count(
    runner: MutantRunner, session: FakeSession, student: Student
) -> None:
    """The solution is run right after it; where it is slow too, the mutant gets more time."""
    student.seconds = 5.0
    assert outcome_of(runner, "False -> True").outcome is MutantOutcome.KILLED
    deadlines = [case.deadline for case in session.cases if case.id == "sum[1]"]
    assert deadlines[0] == deadlines[1] < 15 < deadlines[-1] == 20


def test_a_run_that_the_grader_cannot_make_is_no_kill(runner: MutantRunner) -> None:
    """It is told as our own fault."""
    result = outcome_of(runner, "unlucky()")
    assert (result.outcome, result.message) == (MutantOutcome.BROKEN, "no memory")


# --- on real ranks ---------------------------------------------------------------------------------------------------


def selected(subject: Subject, *identities: str) -> Score:
    return attack(subject, seed=5, select=lambda mutant: mutant.identity in identities)


def test_mutants_are_killed_by_the_checks_of_the_small_exercise(root: Path) -> None:
    """Each is tried on real ranks: a wrong sum, a refusal that is gone, a NameError; and one that no check sees
    survives two seeds. A solution that fails proves nothing, so nothing is tried."""
    solution = root / "reference" / small.NAME / "total.py"
    unseen = "    dist.all_reduce(result)\n    dist.barrier()\n"
    solution.write_text(solution.read_text().replace("    dist.all_reduce(result)\n", unseen))
    raises = 'drop-statement | total | raise TypeError("value must be a tensor")'
    barrier = "drop-statement | total | dist.barrier()"
    score = selected(load(small.NAME, root), REDUCES, CLONES, raises, barrier)
    fates = {result.mutant.identity: (result.outcome, result.by, result.seed) for result in score.results}
    assert fates == {
        raises: (MutantOutcome.KILLED, "refuses", 5),
        CLONES: (MutantOutcome.KILLED, "sums", 5),
        REDUCES: (MutantOutcome.KILLED, "sums", 5),
        barrier: (MutantOutcome.SURVIVED, "", 6),
    }
    solution.write_text(solution.read_text().replace("return result", "return result + 1"))
    score = selected(load(small.NAME, root), REDUCES)
    assert score.results == () and "the solution itself: failed sums" in score.breaches()[0]
