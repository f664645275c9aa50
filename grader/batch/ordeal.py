"""Drawn kills of a batch: processes of it get SIGKILL at drawn moments. How long does what was below them stay, and
does the batch end with the marks of one that was left alone?

python -m grader.batch.ordeal --kills 7 --sandbox off 00

A class of solutions, variants and mutants is graded undisturbed. Then the same class is graded again, one process
after the other is killed, and where that was the driver the command is called again; so it goes on until all kills are
made.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import psutil
import yaml

from grader import catalog
from grader.batch.bench import sample
from grader.batch.ledger import Ledger
from grader.kit import prctl

ALLOWED = 2.0
"""Seconds after which nothing may be left of what was below a process that was killed."""
LOOK, GIVEN_UP = 0.01, 60.0
ROUNDS = 4
"""So often the command is called at the end, if it takes that. A unit that lost two workers is quarantined; `--again
broken` grades it once more, as staff would.
"""
OURS = "grader."
"""What is in the command lines of all processes of ours, forks included; Ray's own are not asked about."""
KINDS = {
    "driver": "grader batch",
    "worker": "grader.batch.worker",
    "host": "grader.ranks.host",
    "actor": "ray::SlotOfBatch",
    "raylet": "raylet/raylet",
}
"""Which process is meant, by what its command line holds. A worker's guard, a host's bubblewrap or keeper, supervisors
and ranks have the command lines of the others, so that they are drawn as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordeal:
    """A class in a folder, and how it is graded."""

    folder: Path
    words: Sequence[str]

    def begun(self, out: str, *more: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "grader", "batch", "hand_ins", "--assignment", "assignment.yaml", "--out", out]
        log = (self.folder / f"{out}.log").open("ab")
        project = str(catalog.repository_root())
        return subprocess.Popen(
            [*words, "--seed", "7", "--plain", *self.words, *more],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": project},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def marks(self, out: str) -> dict[str, tuple[str, str, bool]]:
        """For each unit how far it has come, its verdicts, and whether two grades of it differed."""
        with Ledger(self.folder / out) as ledger:
            rows = ledger.all("SELECT unit, standing, checks, unstable FROM units")
            return {row["unit"]: (row["standing"], row["checks"], bool(row["unstable"])) for row in rows}


def processes(kind: str) -> list[psutil.Process]:
    """Those below this process that a kind means, zombies left out."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if KINDS[kind] in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def is_left(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def killed(victim: psutil.Process) -> tuple[float, list[str]]:
    """Kill a process. Seconds until all of ours that was below it is gone, and what was left when it should be."""
    below = [process for process in victim.children(recursive=True) if OURS in " ".join(process.cmdline())]
    victim.kill()
    start, late = time.monotonic(), list[str]()
    while left := [process for process in [victim, *below] if is_left(process)]:
        seconds = time.monotonic() - start
        if seconds > ALLOWED and not late:
            for process in left:
                with contextlib.suppress(psutil.Error):
                    late.append(" ".join(process.cmdline())[:80])
        if seconds > GIVEN_UP:
            break
        time.sleep(LOOK)
    return time.monotonic() - start, late


def one_kill(driver: subprocess.Popen[bytes], kinds: Sequence[str], span: float, rng: random.Random) -> str:
    """Wait for a drawn moment and kill a drawn process. What happened, in a line; empty where the batch ended before,
    or the driver for want of slots."""
    until, kind = time.monotonic() + rng.uniform(0.1, span), rng.choice(kinds)
    while driver.poll() is None:
        if time.monotonic() >= until and (found := processes(kind)):
            with contextlib.suppress(psutil.Error):
                seconds, late = killed(rng.choice(found))
                return f"{'✓' if seconds <= ALLOWED else '✗'} {kind}: gone after {seconds:.2f} s {late or ''}"
        time.sleep(LOOK)
    return ""


def lines(ordeal: Ordeal, kills: int, kinds: Sequence[str], span: float, rng: random.Random) -> Iterator[str]:
    """A line for each kill, and one for each batch that came to its end."""
    undisturbed, number, done = ordeal.marks("undisturbed"), 0, 0
    while done < kills:
        number += 1
        out = f"disturbed-{number}"
        driver = ordeal.begun(out)
        while done < kills and (line := one_kill(driver, kinds, span, rng)):
            done += 1
            yield line
            if driver.poll() is not None:
                driver = ordeal.begun(out)
        driver.wait()
        rounds = 1
        while ordeal.begun(out, "--again", "broken").wait() and rounds < ROUNDS:
            rounds += 1
        same = ordeal.marks(out) == undisturbed
        yield f"{'✓' if same else '✗'} {out} ended with {'the same marks' if same else 'other marks'}"


@click.command()
@click.argument("exercises", nargs=-1, required=True)
@click.option("--size", type=click.IntRange(1), default=24, show_default=True, help="Hand-ins of the class.")
@click.option("--kills", type=click.IntRange(1), default=20, show_default=True)
@click.option("--kind", "kinds", type=click.Choice(list(KINDS)), multiple=True, help="Whom to kill; may be repeated.")
@click.option("--seed", type=int, help="What is drawn; without it always something else.")
@click.option("--sandbox", default="auto", show_default=True)
@click.option("--engine", default="local", show_default=True)
def main(
    exercises: tuple[str, ...],
    size: int,
    kills: int,
    kinds: tuple[str, ...],
    seed: int | None,
    sandbox: str,
    engine: str,
) -> None:
    """Exit code 1 where something stayed, or marks differ."""
    prctl.become_subreaper()  # whatever loses its parent is still below this process
    root = catalog.repository_root()
    names = [catalog.resolve(word, root) for word in exercises]
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    rng = random.Random(seed)
    local = [kind for kind in KINDS if kind not in ("actor", "raylet")]
    with tempfile.TemporaryDirectory(prefix="ranklings-") as scratch:
        ordeal = Ordeal(folder=Path(scratch), words=["--slots", "2", "--sandbox", sandbox, "--engine", engine])
        drawn = sample(root, size, rng, names)
        for number, one in enumerate(drawn):
            (place := Path(scratch) / "hand_ins" / f"person_{number:03}").mkdir(parents=True)
            (place / one.file).write_bytes(one.specimen.source)
        content = {"title": "Ordeal", "exercises": {name: {"weight": 1} for name in names}}
        (Path(scratch) / "assignment.yaml").write_text(yaml.safe_dump(content))
        start = time.monotonic()
        ordeal.begun("undisturbed").wait()
        span = time.monotonic() - start
        click.echo(f"{len(drawn)} hand-ins, seed {seed}: {span:.0f} s undisturbed")
        wrong = 0
        for line in lines(ordeal, kills, kinds or local, span / 3, rng):
            click.echo(line)
            wrong += line.startswith("✗")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
