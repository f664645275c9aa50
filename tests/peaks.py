"""What the heaviest attacks cost the grader: the most memory that judge and supervisors have together, how long a grade
takes and its deadlines allow, and how long and large its pages are.

    .venv/bin/python -m tests.peaks LEVEL [NAME…]
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from pathlib import Path

import psutil

from grader.model import Report
from tests.hostile.arena import Arena, arena_at
from tests.hostile.catalogue import FOLDER, attack
from tests.largest import PAGES

HEAVIEST = (
    "frames_for_the_seed_control",
    "wire_bomb",
    "wire_many_small_values",
    "wire_colliding_keys",
    "observations_by_the_million",
    "observations_of_empty_tables",
    "trace_of_thirty_thousand_events",
    "messages_nobody_asked_for",
    "frames_of_a_gigabyte",
    "frames_flood",
    "exception_of_fifty_megabytes",
    "exception_of_many_causes",
    "bomb_of_output",
    "daemon_floods_the_output",
    "source_of_many_finallys",
    "real_checkpoint_that_unpacks",
    "real_memory_for_secrets",
)
"""A right solution first, to compare with."""
MIB = 1 << 20


def graders_own() -> list[int]:
    """The judge and its helpers, the host, the supervisors and what opens files: all but ranks and what those start. A
    host's children are supervisors, their children ranks."""
    found, below = [psutil.Process().pid], [(psutil.Process(), 0)]
    while below:
        process, since_host = below.pop()
        with contextlib.suppress(psutil.Error):
            for child in process.children():
                is_host = not since_host and "grader.ranks.host" in " ".join(child.cmdline())
                depth = since_host + 1 if since_host or is_host else 0
                if depth <= 2:
                    found.append(child.pid)
                    below.append((child, depth))
    return found


def shared_out(pid: int) -> int:
    """Bytes of a process, of each page that several share its part."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return 0


class Peak(threading.Thread):
    """Looks until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self._stop_it = 0, threading.Event()

    def run(self) -> None:
        while not self._stop_it.wait(0.02):
            self.most = max(self.most, sum(map(shared_out, graders_own())))

    def stopped(self) -> int:
        self._stop_it.set()
        self.join()
        return self.most


def row(arena: Arena, name: str) -> str:
    """A line of the table."""
    peak, begun = Peak(), time.monotonic()
    peak.start()
    aftermath = arena.grade(attack(FOLDER / f"{name}.py"))
    took, report = time.monotonic() - begun, aftermath.report
    allowed = sum(run.case.deadline for run in report.runs) if report else 0.0
    slowest, largest = pages(report) if report else (0.0, 0)
    seconds = report.seconds if report else took
    cells = f"{seconds:.1f} | {allowed:.0f} | {slowest:.1f} | {largest / 1e6:.2f}"
    return f"| {name} | {aftermath} | {peak.stopped() // MIB} | {cells} |"


def pages(report: Report) -> tuple[float, int]:
    """The most seconds that a page took, and the most bytes that one has."""
    slowest, largest = 0.0, 0
    for page in PAGES.values():
        begun = time.monotonic()
        largest = max(largest, len(page(report).encode()))
        slowest = max(slowest, time.monotonic() - begun)
    return slowest, largest


if __name__ == "__main__":
    print("| attack | came of it | MiB at most | seconds | deadlines | slowest page | largest page, MB |")
    with arena_at(sys.argv[1]) as arena:
        for name in sys.argv[2:] or HEAVIEST:
            print(row(arena, name), flush=True)
