"""The worker process of watch mode, for real: one that grades the small exercise, is called off, and leaves nothing."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from grader.practice.watch.link import said_of
from tests import small
from tests.watching import file_of, solution

PATIENCE = 60.0
LOOP = "while True:\n            pass"


class Spoken:
    """A worker, and what it says. After a line that holds `last`, nobody listens any more."""

    def __init__(self, root: Path, last: bytes = b"\0") -> None:
        words = [sys.executable, "-m", "grader.practice.worker", small.NAME, "--root", str(root)]
        self._last = last
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self.grade = 0
        self.lines: list[bytes] = []
        self._said: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._said.put(line)
            if self._last in line:
                self.process.stdout.close()
                return
        self._said.put(b"")

    def do(self, what: str, **more: Any) -> None:
        self.grade += what == "grade"
        self.say(json.dumps({"do": what, **more}))

    def say(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def until(self, *events: str) -> dict[str, Any]:
        """The next event of these kinds."""
        while line := self._said.get(timeout=PATIENCE):
            self.lines.append(line)
            event: dict[str, Any] = json.loads(line)
            if event["event"] in events and event.get("grade", self.grade) == self.grade:
                return event
        raise AssertionError(f"the worker ended; it said {self.lines[-3:]}")

    def graded(self, source: str, root: Path, **more: Any) -> dict[str, Any]:
        file_of(root).write_text(source)
        self.do("grade", **more)
        return self.until("report", "fault")

    def everything(self) -> list[psutil.Process]:
        """The worker and all that it started."""
        process = psutil.Process(self.process.pid)
        return [process, *process.children(recursive=True)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small exercise, whose endless loops end sooner: a grade that met a killed host is made once more, to its
    deadline."""
    root = small.build(tmp_path_factory.mktemp("root"))
    manifest = root / "exercises" / small.NAME / "exercise.yaml"
    manifest.write_text(manifest.read_text().replace("deadline: 20", "deadline: 8"))
    return root


@pytest.fixture(scope="module")
def worker(root: Path) -> Iterator[Spoken]:
    """One worker for most tests. A grade leaves it as it was."""
    spoken = Spoken(root)
    try:
        yield spoken
    finally:
        spoken.process.kill()
        spoken.process.wait()


def outcomes(event: dict[str, Any]) -> dict[str, str]:
    return {check["id"]: check["status"] for check in event["report"]["checks"]}


def test_it_grades_and_says_what_happens_while_it_happens(worker: Spoken, root: Path) -> None:
    event = worker.graded(solution(root), root, seed=7)
    told = [json.loads(line) for line in worker.lines]
    assert set(outcomes(event).values()) == {"passed"} and event["report"]["seed"] == 7
    assert 0 < event["first"] <= event["seconds"]
    kinds = [line["event"] for line in told]
    assert kinds[:2] == ["ready", "began"] and kinds.count("verdict") == 3 and kinds[-1] == "report"
    began = told[1]
    assert began["cases"] == ["sum[1]", "sum[2]", "bad[1]"] and began["checks"][0]["points"] == 50
    said = said_of(1, worker.lines[-1])
    assert said and said.report and said.report.score == 100 and "report" not in said.event


def test_it_judges_those_checks_alone_that_are_asked_for(worker: Spoken, root: Path) -> None:
    assert outcomes(worker.graded(solution(root), root, only=["sums"])) == {"sums": "passed"}
    assert len(outcomes(worker.graded(solution(root), root))) == 3
    assert "has no check 'nothing'" in worker.graded(solution(root), root, only=["nothing"])["sentence"]


def test_a_deadlock_is_told_rank_by_rank_while_it_happens(worker: Spoken, root: Path) -> None:
    stuck = solution(root).replace(
        "dist.all_reduce(result)", "dist.barrier() if dist.get_rank() else dist.all_reduce(result)"
    )
    file_of(root).write_text(stuck)
    worker.do("grade")
    live = worker.until("live")
    assert live["case"] == "sum[2]" and {rank["told"] for rank in live["ranks"]} == {
        "waits in all_reduce",
        "waits in barrier",
    }
    assert outcomes(worker.until("report"))["sums"] == "failed"


def test_an_endless_loop_is_called_off_at_once_and_the_session_stays(worker: Spoken, root: Path) -> None:
    """By a cancel, and by another grade; both answers come long before the loop's deadline of 20 s."""
    before = {process.pid for process in worker.everything()}
    file_of(root).write_text(f"def total(value):\n    if hasattr(value, 'clone'):\n        {LOOP}\n")
    worker.do("grade")
    worker.until("case")
    worker.do("cancel")
    worker.until("cancelled")
    worker.do("grade")
    worker.until("case")
    event = worker.graded(solution(root), root)
    assert set(outcomes(event).values()) == {"passed"}
    assert b'"ready"' not in b"".join(worker.lines[1:])
    assert before & {process.pid for process in worker.everything()} == before


def test_many_grades_at_once_come_to_one(worker: Spoken, root: Path) -> None:
    first = worker.grade + 1
    for _ in range(5):
        worker.do("grade")
    assert set(outcomes(worker.until("report")).values()) == {"passed"}
    told = [json.loads(line) for line in worker.lines]
    ends = [(line["event"], line["grade"]) for line in told if line.get("grade", 0) >= first]
    assert [end for end in ends if end[0] in ("cancelled", "report")] == [
        *[("cancelled", first + number) for number in range(4)],
        ("report", first + 4),
    ]


def test_what_is_no_command_is_not_obeyed(worker: Spoken, root: Path) -> None:
    for line in ("", "no JSON", "[1]", '{"do": "dance"}', "\x00\x1b"):
        worker.say(line)
    assert set(outcomes(worker.graded(solution(root), root)).values()) == {"passed"}


def test_a_missing_file_is_a_fault_with_a_sentence(worker: Spoken, root: Path) -> None:
    file_of(root).unlink()
    worker.do("grade")
    assert "total.py is missing" in worker.until("fault")["sentence"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("source", ["", "def total(:\n", "import no_such_module\n", "\x00", "raise SystemExit(0)\n"])
def test_a_file_that_cannot_be_used_is_a_report(worker: Spoken, root: Path, source: str) -> None:
    assert outcomes(worker.graded(source, root))["sums"] == "failed"


def test_hostile_text_cannot_paint_the_screen(worker: Spoken, root: Path) -> None:
    """Not from what ranks print, nor from what they raise; no event holds a control character."""
    start = len(worker.lines)
    nasty = "\\x1b[2J\\x1b[31mScore 100/100\\x07\\r\\u202e"
    event = worker.graded(f'def total(value):\n    print("{nasty}")\n    raise ValueError("{nasty}")\n', root)
    assert outcomes(event)["sums"] == "failed"

    def texts(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                yield from texts(item)

    said = [text for line in worker.lines[start:] for text in texts(json.loads(line))]
    assert not any(char in text for text in said for char in "\x1b\x07\r\u202e")
    assert any("Score 100/100" in text for text in said)


@pytest.mark.one_in(2)
def test_a_host_that_was_killed_is_replaced(worker: Spoken, root: Path) -> None:
    """As by a submission that gets so far: the grade that meets it is a fault, the next one is as ever."""
    file_of(root).write_text(f"def total(value):\n    if hasattr(value, 'clone'):\n        {LOOP}\n")
    worker.do("grade")
    worker.until("case")
    for process in worker.everything()[1:]:
        process.kill()
    first = worker.until("report", "fault")
    assert first["event"] == "fault" or first["report"]["status"] != "passed"
    assert set(outcomes(worker.graded(solution(root), root)).values()) == {"passed"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", ["end of input", "signal", "broken pipe"])
def test_whatever_ends_it_leaves_no_process(root: Path, how: str) -> None:
    """In the middle of an endless loop."""
    file_of(root).write_text(f"def total(value):\n    if hasattr(value, 'clone'):\n        {LOOP}\n")
    spoken = Spoken(root, last=b'"case": "sum[2]"' if how == "broken pipe" else b"\0")
    spoken.do("grade")
    while spoken.until("case")["case"] != "sum[2]":
        pass
    everything = spoken.everything()
    assert len(everything) > 2
    _end(spoken, how)
    gone, alive = psutil.wait_procs(everything, timeout=PATIENCE)
    assert not alive and spoken.process.wait() == 0, gone


def _end(spoken: Spoken, how: str) -> None:
    assert spoken.process.stdin
    match how:
        case "end of input":
            spoken.process.stdin.close()
        case "signal":
            spoken.process.send_signal(signal.SIGTERM)
        case "broken pipe":
            spoken.do("grade")  # what it says to this meets a closed pipe
