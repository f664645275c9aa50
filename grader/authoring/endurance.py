"""Many grades of a right solution: in a row in one process, where nothing may grow, and all at once.

python -m grader.authoring.endurance --row 500 01
python -m grader.authoring.endurance --at-once 8 01 02 03
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import click
import psutil

from grader import catalog
from grader.authoring.faults import host_of, left_behind
from grader.authoring.lab import named, solution_of
from grader.grading.flow import grade
from grader.grading.request import Request
from grader.kit.meeting import wait_until
from grader.kit.processes import waits
from grader.ranks import Session

KIB = 1024
WARM = 10
"""Grades after which caches are filled and growth is counted."""
SETTLING = 10.0
"""Seconds that the host may take to wait for its next run."""
ALLOWED = {"judge_memory": 16 * KIB, "host_memory": 16 * KIB}
"""Growth in KiB that is no leak however many grades there were: fragments of the heap. Of the rest none is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What a session holds of the machine: memory in KiB (resident, unshared), the rest in pieces."""

    judge_memory: int
    host_memory: int
    judge_descriptors: int
    host_descriptors: int
    processes: int
    ports: int
    files: int

    def growth(self, later: Holdings) -> dict[str, int]:
        """What has become more, by name, beyond what is allowed."""
        more = {f.name: getattr(later, f.name) - getattr(self, f.name) for f in fields(self)}
        return {name: amount for name, amount in more.items() if amount > ALLOWED.get(name, 0)}


def holdings(session: Session) -> Holdings:
    """Counted now. Call it when no run is under way."""
    judge, host = psutil.Process(), host_of(session)
    return Holdings(
        judge_memory=judge.memory_full_info().uss // KIB,
        host_memory=host.memory_full_info().uss // KIB,
        judge_descriptors=judge.num_fds(),
        host_descriptors=host.num_fds(),
        processes=len(judge.children(recursive=True)),
        ports=len(_ports(judge)) + len(_ports(host)),
        files=len(list(Path(tempfile.gettempdir()).iterdir())),
    )


def _ports(process: psutil.Process) -> list[object]:
    with contextlib.suppress(psutil.Error):
        return list(process.net_connections(kind="inet"))
    return []


def in_a_row(name: str, root: Path, times: int, session: Session) -> Iterator[tuple[str, Holdings]]:
    """Grade the reference solution again and again on one session: each time the status, and what is held then."""
    solution = solution_of(catalog.load(name, root), root)
    for seed in range(times):
        report = grade(Request(exercise=name, root=root, submission=solution, seed=seed), session)
        left = left_behind(session)
        wait_until(lambda: waits(host_of(session).pid), SETTLING)  # it says that a run is over, and then closes its end
        yield report.status if not left else "; ".join(left), holdings(session)


@contextlib.contextmanager
def private_folder() -> Iterator[None]:
    """A temporary folder that no other program writes to, so that files can be counted."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = before


def at_once(name: str, root: Path, count: int) -> list[tuple[int, str]]:
    """Grade the reference solution in so many processes at the same time: the exit code and the page of each."""
    solution = solution_of(catalog.load(name, root), root)
    words = [sys.executable, "-m", "grader", "grade", name, "--submission", str(solution)]
    running = [
        subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(count)
    ]
    pages = [process.communicate()[0] for process in running]
    return [(process.returncode, page) for process, page in zip(running, pages, strict=True)]


def _tell_row(name: str, root: Path, times: int) -> bool:
    start = time.monotonic()
    with private_folder(), Session() as session:
        seen = list(in_a_row(name, root, times, session))
    wrong = [status for status, _ in seen if status != "passed"]
    before, after = seen[min(WARM, len(seen)) - 1][1], seen[-1][1]
    click.echo(f"{name}: {len(seen)} grades in a row, {len(wrong)} wrong, {time.monotonic() - start:.0f} s")
    click.echo(f"  after {WARM}: {before}\n  after {len(seen)}: {after}\n  growth: {before.growth(after) or 'none'}")
    return not wrong and not before.growth(after)


def _tell_at_once(name: str, root: Path, count: int) -> bool:
    start, ended = time.monotonic(), at_once(name, root, count)
    wrong = [page for code, page in ended if code]
    click.echo(f"{name}: {count} grades at once, {len(wrong)} wrong, {time.monotonic() - start:.0f} s")
    for page in wrong:
        click.echo(page)
    return not wrong


@click.command(help=__doc__)
@click.argument("ex", nargs=-1)
@click.option("--row", default=0, help="So many grades one after the other.")
@click.option("--at-once", "count", default=0, help="So many grades at the same time.")
def main(ex: tuple[str, ...], row: int, count: int) -> None:
    root = catalog.repository_root()
    right = True
    for name in named(ex, root):
        right &= _tell_row(name, root, row) if row else True
        right &= _tell_at_once(name, root, count) if count else True
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
