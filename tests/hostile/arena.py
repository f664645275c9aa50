"""Where attacks are let loose: a course on disk, canaries beside it, and one grade after the other in warm sessions."""

from __future__ import annotations

import contextlib
import inspect
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from grader import catalog
from grader.grading.flow import grade
from grader.grading.request import Request
from grader.model import Outcome, Report
from grader.model.errors import GraderError, RunError, UsageError
from grader.ranks import Session
from grader.ranks import session as ours
from grader.render import json as as_json
from grader.render import terminal
from tests.hostile.catalogue import FOLDER, Attack, attack
from tests.hostile.course import FILE, NAME, SECRET, SOLUTION, course
from tests.hostile.harm import Outside, belongs, everybody, fingerprints, injected, left, marked_files

SILENCE_SECONDS = 30.0
"""How long after a case's deadline a supervisor may be silent here; a real grade is more patient."""
HUNG_SECONDS = 90.0


@dataclass(frozen=True)
class Aftermath:
    """What came of one hostile grade: one word of `catalogue.WORDS`, what was said, and what should not have been."""

    word: str
    told: str
    harm: tuple[str, ...] = ()
    report: Report | None = None

    def __str__(self) -> str:
        return ", ".join((self.word, *self.harm))


class Arena:
    """A copy of a course on disk, beside it a submission's folder and canaries, and warm sessions to grade in."""

    def __init__(self, folder: Path, level: str) -> None:
        self.folder, self.level = folder, level
        self.root, self.handed_in = folder / "course", folder / "inbox"
        self.marker = f"hostile-{secrets.token_hex(8)}"
        self.session: Session | None = None
        self.outside = Outside(self.marker)

    def close(self) -> None:
        self.end_session()
        self.outside.close()

    # -- sessions ---------------------------------------------------------------------------------------------

    def warm(self) -> Session:
        """The session of this level, a new one where an attack has ended the last."""
        if self.session is None:
            self.session = session_at(self.level).__enter__()
            solution = self.root / "reference" / NAME / FILE
            grade(Request(exercise=NAME, root=self.root, submission=solution), self.session)
        return self.session

    def end_session(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

    # -- one grade --------------------------------------------------------------------------------------------

    def lay_out(self, deadline: float) -> None:
        """Course, inbox and canaries as they are before anybody attacks."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name, text in course(deadline):
            _write(self.root / name, text)
        _write(self.root / "journal.jsonl", f'{{"expected": "{SECRET}"}}\n')
        _write(self.folder / "inbox-of-another" / FILE, SOLUTION)
        _write(self.folder / "home" / ".netrc", f"password {SECRET}\n")
        _write(self.handed_in / "canary.txt", "alive\n")

    def filled(self, text: str) -> str:
        """An attack's text, told where things are: an attacker who has found out is assumed."""
        places = {
            "ROOT": self.root,
            "FOLDER": self.folder,
            "REPOSITORY": Path.cwd(),
            "MARKER": self.marker,
            "PORT": self.outside.port,
            "JUDGE": os.getpid(),
            "VENV": Path(os.environ.get("VIRTUAL_ENV", ".venv")),
        }
        for name, place in places.items():
            text = text.replace(f"@{name}@", str(place))
        return text

    def hand_in(self, attack: Attack) -> Path:
        """The submission on disk, as the attack wants it handed in."""
        folder, path = self.handed_in, self.handed_in / attack.file
        for name, text in attack.beside.items():
            _write(folder / name, self.filled(text))
        if attack.hand_in == "fifo":
            os.mkfifo(path)
        elif attack.hand_in.startswith("symlink "):
            path.symlink_to(self.filled(attack.hand_in.removeprefix("symlink ")))
        elif attack.hand_in.startswith("copy "):
            shutil.copyfile(self.filled(attack.hand_in.removeprefix("copy ")), path)
        else:
            _write(path, self.filled(attack.source))
        return folder if attack.hand_in != "file" else path

    def grade(self, attack: Attack) -> Aftermath:
        """Hand in and grade as often as the attack wants, in one warm session; what came of the last time."""
        if attack.alone:
            return self._grade_alone(attack)
        self.lay_out(attack.deadline)
        session = self.warm()
        path = self.hand_in(attack)
        before, alive = fingerprints(self.folder), everybody()
        word, told, report = "", "", None
        for _ in range(attack.grades):
            word, told, report = self._within(lambda: self._grade(attack, path, session))
        harm = self._harm(before, alive, told, report)
        tried_again = report is not None and any(run.retried for run in report.runs)
        if word in ("uncounted", "error", "crashed", "hung") or tried_again or not session.alive:
            self.end_session()  # the next attack is to begin in a sound one
        return Aftermath(word, told, harm, report)

    def _grade_alone(self, attack: Attack) -> Aftermath:
        """The same by a judge in a process of its own, which the attack may kill."""
        own = self.folder.with_name("alone")
        own.mkdir(exist_ok=True)
        alive = everybody()
        ended = subprocess.run(
            [sys.executable, "-m", "tests.hostile.arena", attack.name, self.level],
            env={**os.environ, "TMPDIR": str(own)},
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * HUNG_SECONDS,
        )
        harm = ["left a process" for _ in [0] if left([p for p in everybody() - alive if belongs(p, str(own))])]
        shutil.rmtree(own, ignore_errors=True)
        if ended.returncode < 0:
            return Aftermath("killed the judge", ended.stderr, tuple(harm))
        word, _, told = ended.stdout.partition("\n")
        return Aftermath(word, told + ended.stderr, tuple(harm))

    def _grade(self, attack: Attack, path: Path, session: Session) -> tuple[str, str, Report | None]:
        try:
            root = Path.cwd() if attack.real else self.root
            name = catalog.resolve(attack.exercise_name, root)
            report = grade(Request(exercise=name, root=root, submission=path), session)
        except UsageError as error:
            return "refused", str(error), None
        except GraderError as error:
            return "error", str(error), None
        except BaseException as error:
            return "crashed", f"{type(error).__name__}: {error}", None
        return _word(report), "\n".join([terminal.render(report), as_json.render(_sourceless(report))]), report

    def _within(self, work: Callable[[], Any]) -> Any:
        """`work`'s result; "hung" if it has none after a minute, and then the session is ended."""
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
        thread.start()
        thread.join(HUNG_SECONDS)
        if not found:
            self.end_session()
            return "hung", "", None
        return found[0]

    # -- what was harmed --------------------------------------------------------------------------------------

    def _harm(
        self, before: dict[str, bytes], alive: set[psutil.Process], told: str, report: Report | None
    ) -> tuple[str, ...]:
        harm = ["changed files" for _ in [0] if fingerprints(self.folder) != before]
        harm += ["leaked a secret" for _ in [0] if SECRET in told or SECRET in repr(report)]
        harm += ["reached the network" for _ in [0] if self.outside.was_reached()]
        harm += ["left a process" for _ in [0] if self._left_behind(alive)]
        harm += ["left files" for _ in [0] if marked_files(self.marker)]
        harm += ["got in" for _ in [0] if f"{self.marker} is in" in told]
        harm += ["injected" for _ in [0] if injected(told)]
        return tuple(harm)

    def _left_behind(self, alive: set[psutil.Process]) -> list[psutil.Process]:
        """Processes of this session that were not there before and do not leave."""
        scratch = str(self.session.scratch) if self.session and self.level == "limits" else self.marker
        return left([p for p in everybody() - alive if belongs(p, scratch, self.marker)])


def _sourceless(report: Report) -> Report:
    """The report without the attack's own text, in which all stands that it must not bring about."""
    return replace(report, submission=replace(report.submission, source=b""))


def session_at(level: str) -> Session:
    """A session of that level, not entered."""
    if "sandbox" not in inspect.signature(Session.__init__).parameters:
        return Session()
    wanted: Any = {"sandbox": "require" if level == "bubblewrap" else "off"}
    return Session(**wanted)


def can_have(level: str) -> bool:
    """Whether this machine and this grader have the level."""
    if level == "limits":
        return True
    if not shutil.which("bwrap") or "sandbox" not in inspect.signature(Session.__init__).parameters:
        return False
    try:
        with session_at(level) as session:
            return session.level == level
    except RunError:
        return False


@contextlib.contextmanager
def arena_at(level: str) -> Iterator[Arena]:
    """An arena of that level, with a grader that is less patient with a silent supervisor. Judging compiles nothing
    into its folder, so that whatever changes there is the attack's doing."""
    patience, writes_nothing = ours.MARGIN_SECONDS, sys.dont_write_bytecode
    ours.MARGIN_SECONDS = SILENCE_SECONDS  # type: ignore[assignment]
    sys.dont_write_bytecode = True
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    arena = Arena(folder / "arena", level)
    try:
        yield arena
    finally:
        arena.close()
        ours.MARGIN_SECONDS, sys.dont_write_bytecode = patience, writes_nothing
        shutil.rmtree(folder, ignore_errors=True)


def _word(report: Report) -> str:
    if report.submission.problem is not None:
        return "refused"
    if any(verdict.outcome is Outcome.BROKEN for verdict in report.verdicts):
        return "uncounted" if report.mark is not None else "error"
    return "passed" if report.status == "passed" else "failed"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    with arena_at(sys.argv[2]) as single:
        aftermath = single.grade(replace(attack(FOLDER / f"{sys.argv[1]}.py"), alone=False))
        print(aftermath, aftermath.told, sep="\n")
