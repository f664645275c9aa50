"""The folder of a batch: who may write to it, and the seed that all its shards share."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from grader import files
from grader.batch.ledger import FILE, SHARDS, Ledger
from grader.model import MAX_SEED
from grader.model.errors import UsageError

FACTS, FORMAT = "batch.json", "ranklings/batch/1"


def shard_name(shard: tuple[int, int]) -> str:
    """What a shard's ledger is called; empty for a batch that is not parted."""
    return f"{shard[0]}-of-{shard[1]}" if shard[1] > 1 else ""


def shards(folder: Path) -> list[str]:
    """The names of the shards that have a ledger in a batch's folder."""
    return sorted(path.stem for path in (folder / SHARDS).glob("*.sqlite3"))


def absent(folder: Path) -> list[str]:
    """The shards of a batch that have no ledger in its folder, or one without a plan: what others of them have begun
    they have not."""
    known = shards(folder)
    parts = {name.partition("-of-")[2] for name in known}
    every = [f"{number}-of-{part}" for part in sorted(parts) if part.isdecimal() for number in range(1, int(part) + 1)]
    return [name for name in every if name not in known or not _is_planned(folder, name)]


def _is_planned(folder: Path, shard: str) -> bool:
    with Ledger(folder, shard=shard) as ledger:
        return ledger.plan() is not None


def prepare(out: Path, title: str, seed: int | None) -> int:
    """Begin the folder, or find that it is of this assignment. The seed of the batch: the one of the folder, which is
    the one given or drawn when it is begun. Raises UsageError for a folder of something else, or of another seed."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        facts = out / FACTS
        if not facts.exists():
            _check_empty(out)
            drawn = secrets.randbelow(MAX_SEED) if seed is None else seed
            _place(facts, json.dumps({"format": FORMAT, "title": title, "seed": drawn}))
        return _kept_seed(out, title, seed)
    except OSError as error:
        raise UsageError(f"{out} cannot be the folder of a batch: {error.strerror}.") from None


def seed_of(out: Path, title: str, seed: int | None = None) -> int:
    """The seed that a batch in this folder would have; 0 where nothing says so yet. Raises UsageError as `prepare`
    does."""
    return _kept_seed(out, title, seed) if (out / FACTS).exists() else seed or 0


def _kept_seed(out: Path, title: str, seed: int | None) -> int:
    """The folder's seed, which stays: with another one every hand-in would be run again, and what is recorded would be
    nobody's."""
    known = _known_seed(out, title)
    if seed is not None and seed != known:
        raise UsageError(f"{out} keeps the seed it was begun with, {known}; name another folder by --out for {seed}.")
    return known


def _known_seed(out: Path, title: str) -> int:
    try:
        known = json.loads((out / FACTS).read_text(encoding="utf-8"))
        if known["format"] != FORMAT:
            raise UsageError(f"{out / FACTS} was written by a newer version of the grader; update this one.")
        if known["title"] != title:
            raise UsageError(
                f"{out} holds the batch of another assignment, {known['title']!r}, and this one is {title!r}; name "
                "another folder by --out."
            )
        return int(known["seed"])
    except (LookupError, TypeError, ValueError):
        raise UsageError(f"{out / FACTS} is damaged; name another folder by --out.") from None


def _check_empty(out: Path) -> None:
    others = [entry.name for entry in out.iterdir() if not entry.name.startswith(".")]
    if others and FILE not in others and SHARDS not in others:
        raise UsageError(f"{out} holds {others[0]} and no batch; name a new folder by --out.")


def _place(path: Path, text: str) -> None:
    """Write a file that several may want to write at once: the first one's stays."""
    partial = files.another_name(path)
    partial.write_text(text, encoding="utf-8")
    try:
        with contextlib.suppress(FileExistsError):
            os.link(partial, path)
    finally:
        partial.unlink()


@contextmanager
def driving(ledger: Ledger) -> Iterator[None]:
    """This process alone drives the ledger. Raises UsageError where another one does."""
    lock = lock_of(ledger)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(
            f"Another command is at work on {ledger.path}; `batch status {ledger.folder}` says how far it is."
        ) from None
    except OSError as error:
        raise UsageError(f"{lock.lock_file} cannot be locked: {error.strerror}.") from None
    try:
        yield
    finally:
        lock.release()


def is_driven(ledger: Ledger) -> bool:
    """Whether somebody drives the ledger now."""
    lock = lock_of(ledger)
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        return True
    lock.release()
    return False


def lock_of(ledger: Ledger) -> FileLock:
    return FileLock(f"{ledger.path}.lock")
