"""Watches the ranks of one run from a process of its own, which never imports student code.

It starts the ranks, reads what they send, tells the endings apart, calls a deadlock, and leaves no process behind.
The judge gets, over one connection, a wire frame for each rank and a last one for the run.
"""

from __future__ import annotations

import contextlib
import errno
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from grader.model import MIB, Limits, Wait
from grader.model.errors import WireError
from grader.ranks.inside import prctl
from grader.ranks.watch import decide, quiet, reaper
from grader.ranks.watch.census import Census, Excess, anonymous_memory
from grader.ranks.watch.channel import LIVE, talk_of
from grader.ranks.watch.folder import RunFolder
from grader.ranks.watch.watched import Watched, main_stack, parse_faulthandler, reserved_port, signal_name, stopped
from grader.records import wire
from grader.records.structure import unstructure

Snapshots = dict[int, dict[str, Any]]

TICK = 0.04
GRACE = 3.0
"""Seconds that busy ranks get after another has failed, before they are stopped."""
ANSWER = 1.0
"""Seconds that a rank gets to answer a snapshot or to flush after its end."""
LAST_READS = 128
"""So often the channel of a rank that has ended is read once more; each time up to 4 MiB."""
MAX_OBSERVATIONS = wire.MAX_FRAME


class Supervisor:
    """One run. `run()` returns when every rank is over and no process is left."""

    def __init__(self, spec: Mapping[str, Any], judge: Connection) -> None:
        self.spec, self.judge = spec, judge
        self.folder = RunFolder(Path(spec["folder"]), spec["files"], spec["world_size"])
        self.census = Census(Limits(**spec["limits"]), self.folder.path, anonymous_memory())
        self.watch = quiet.Watch()
        self.ranks: list[Watched] = []
        self.first_failure: float | None = None
        self.questions = 0
        self.asked_at = 0.0
        self.idlers: tuple[float, Mapping[int, Wait] | None] = (0.0, None)
        self.began = self.start = time.monotonic()

    def run(self) -> None:
        with reserved_port() as port:
            self.ranks = self._start({**self._spec(), "port": port, "began": int(1e9 * self.began)})
            while any(rank.live for rank in self.ranks):
                if not self._read(TICK):
                    break  # the judge has gone or lost interest
                self._look()
            self._release()
        reaper.kill_descendants()
        self._report()

    def _seconds(self) -> float:
        """Since the run began: the clock of endings and traces. The deadline counts from when the ranks had started."""
        return time.monotonic() - self.began

    # -- starting ---------------------------------------------------------------------------------------------

    def _spec(self) -> dict[str, Any]:
        """What a rank is told: the files lie in folders now."""
        told = {key: value for key, value in self.spec.items() if key not in ("files", "folder")}
        folder = self.folder
        return {**told, "scratch": str(folder.path), "code": str(folder.code), "shared": str(folder.shared)}

    def _start(self, spec: Mapping[str, Any]) -> list[Watched]:
        import torch.multiprocessing

        from grader.ranks.inside import rank as inside
        from grader.ranks.inside import setup

        count = spec["world_size"]
        os.environ["TMPDIR"] = str(self.folder.temporary)
        channels = [multiprocessing.Pipe() for _ in range(count)]
        outputs = [multiprocessing.Pipe(duplex=False) for _ in range(count)]
        far_ends = [(channel[1], output[1]) for channel, output in zip(channels, outputs, strict=True)]
        method = "spawn" if spec["start_method"] == "spawn" else "fork"
        spec = {**spec, "inherited": setup.open_descriptors() if method == "fork" else []}
        start: Any = torch.multiprocessing.start_processes  # type: ignore[attr-defined]
        context = start(inside.main, (spec, far_ends), nprocs=count, join=False, start_method=method)
        for pair in far_ends:
            for end in pair:
                end.close()
        self.start = time.monotonic()
        ends = zip(channels, outputs, context.processes, strict=True)
        return [Watched(rank, c[0], o[0], process) for rank, (c, o, process) in enumerate(ends)]

    # -- reading ----------------------------------------------------------------------------------------------

    def _read(self, timeout: float) -> bool:
        """Take in what has arrived. False if the judge has hung up."""
        sources: dict[Any, tuple[str, Watched | None]] = {self.judge: ("judge", None)}
        for rank in self.ranks:
            if not rank.gone:
                sources[rank.channel] = ("channel", rank)
                sources[rank.process.sentinel] = ("sentinel", rank)
            if rank.output is not None:
                sources[rank.output] = ("output", rank)
        for source in sorted(wait(list(sources), timeout), key=lambda s: sources[s][0]):
            kind, sender = sources[source]
            if sender is None:
                return False
            getattr(self, f"_take_{kind}")(sender)
        return True

    def _take_channel(self, rank: Watched) -> None:
        try:
            for message in rank.inbox.take():
                self._message(rank, message)
        except WireError as error:
            self._forged(rank, error)
        except (EOFError, OSError):
            self._take_sentinel(rank)

    def _take_output(self, rank: Watched) -> None:
        if rank.output is None:
            return
        data = os.read(rank.output.fileno(), 1 << 16)
        if data:
            rank.printed.add(data)
        else:
            rank.output.close()
            rank.output = None

    def _take_sentinel(self, rank: Watched) -> None:
        """The process has ended or hung up: if it had not said how, say so for it."""
        if rank.gone:
            return
        with contextlib.suppress(EOFError, OSError, WireError):
            for _ in range(LAST_READS):  # what it has started may still hold the channel and go on
                if not rank.channel.poll():
                    break
                for message in rank.inbox.take():
                    self._message(rank, message)
        rank.process.join(ANSWER)
        rank.gone = True
        code = rank.process.exitcode
        if code is not None and code < 0:
            rank.end({"kind": "killed", "signal": signal_name(-code)}, self._seconds())
        else:
            rank.end({"kind": "exited", "code": str(code), "how": "os._exit"}, self._seconds())
        self._note_failure(rank)

    def _forged(self, rank: Watched, error: WireError) -> None:
        """A rank that sends what no rank sends has failed. Nothing more is read from it."""
        rank.gone = True
        said = {"type": "MalformedMessage", "message": f"the rank's process sent the grader {error}", "causes": []}
        rank.end({"kind": "raised", **said}, self._seconds())
        self._note_failure(rank)

    def _message(self, rank: Watched, message: bytes) -> None:
        kind, content = talk_of(message)
        if kind == "observation":
            rank.size += len(content) + 64
            if rank.live and rank.size <= MAX_OBSERVATIONS:
                rank.observations.append(content)
        elif kind == "hello" and not rank.ready:
            (rank.own, rank.device), rank.ready = content, True
        elif kind == "snapshot" and content[0] == rank.asked:
            rank.snapshot = content[1]
        elif kind == "trace" and rank.live:
            rank.trace = content
        elif kind == "ending":
            rank.end(content, self._seconds())
            self._note_failure(rank)

    def _note_failure(self, rank: Watched) -> None:
        if rank.ending and rank.ending["kind"] != "finished" and self.first_failure is None:
            self.first_failure = time.monotonic()

    # -- judging the live ones --------------------------------------------------------------------------------

    def _look(self) -> None:
        live = [rank for rank in self.ranks if rank.live]
        if not live:
            return
        if time.monotonic() - self.start > self.spec["deadline"]:
            self._time_out(live)
        elif found := self._excess(live):
            self._end_excess(live, found)
        elif self.first_failure and time.monotonic() - self.first_failure > GRACE:
            self._stop(live)
        elif all(rank.ready for rank in live):
            self._look_for_deadlock(live)

    def _excess(self, live: list[Watched]) -> Excess | None:
        """The limit that was passed, if any."""
        most = self.spec["limits"]["output"]
        loud = frozenset(rank.rank for rank in live if rank.printed.total > most)
        if loud:
            return Excess(f"output: more than {most // MIB} MiB", loud)
        return self.census.excess({rank.rank: rank.pid for rank in live})

    def _end_excess(self, live: list[Watched], found: Excess) -> None:
        """End the run. Where nobody knows which rank it was, it was all of them."""
        for rank in live:
            guilty = not found.ranks or rank.rank in found.ranks or not found.ranks & {r.rank for r in live}
            limit = found.text if guilty else ""
            rank.end({"kind": "killed", "signal": "SIGKILL", "by_grader": True, "limit": limit}, self._seconds())
        reaper.kill_descendants()

    def _look_for_deadlock(self, live: list[Watched]) -> None:
        shortest = decide.QUIET if len(live) == len(self.ranks) else decide.QUIET_AFTER_AN_ENDING
        pids = {rank.pid: rank.own for rank in live}
        if self.watch.quiet_seconds(pids) >= shortest:
            self._look_at_sleepers(live)
        elif self.watch.idle_seconds(pids) >= decide.UNCHANGED and self._may_ask():
            self._look_at_idlers(live)

    def _look_at_sleepers(self, live: list[Watched]) -> None:
        """All are asleep: nothing can move them if all sit in communication."""
        snapshots = self._snapshots(live)
        found = decide.waits(snapshots)
        if not found or decide.in_rendezvous(snapshots):
            self.watch.restart()  # ask again only after another spell of quiet
            self._look_at_idlers(live, snapshots)
        elif self._quiet(live) >= decide.quiet_needed(found, len(self.ranks)):
            self._call_deadlock(live, found)

    def _look_at_idlers(self, live: list[Watched], snapshots: Snapshots | None = None) -> None:
        """Some wake up now and then to try again: stuck if they meet in vain, or if a rank has failed meanwhile, and
        nothing has changed since an earlier look."""
        snapshots = snapshots or self._snapshots(live)
        found = decide.waits(snapshots)
        stuck = found and (self.first_failure is not None or decide.meeting_fails(snapshots))
        if not found or not stuck or found != self.idlers[1]:
            self.idlers = time.monotonic(), found if stuck else None
        elif time.monotonic() - self.idlers[0] >= decide.UNCHANGED:
            self._call_deadlock(live, found)

    def _may_ask(self) -> bool:
        """Snapshots wake the ranks, so they are not asked for at every tick."""
        return time.monotonic() - self.asked_at >= decide.UNCHANGED / 2

    def _call_deadlock(self, live: list[Watched], found: Mapping[int, Wait]) -> None:
        for rank in live:
            if rank.rank in found:
                ending = {"kind": "deadlocked", "wait": asdict(found[rank.rank]), "stack": main_stack(rank)}
                rank.end(ending, self._seconds())

    def _quiet(self, live: list[Watched]) -> float:
        return self.watch.quiet_seconds({rank.pid: rank.own for rank in live})

    def _snapshots(self, ranks: list[Watched]) -> Snapshots:
        """Ask each rank what it does. One that cannot answer holds the GIL in C: it counts as busy."""
        self.questions, self.asked_at = self.questions + 1, time.monotonic()
        for rank in ranks:
            rank.snapshot, rank.asked = None, str(self.questions)
            rank.ask(rank.asked.encode())
        until = time.monotonic() + ANSWER
        while any(r.live and r.snapshot is None for r in ranks) and time.monotonic() < until and self._read(TICK):
            pass
        silent: dict[str, Any] = {
            "threads": [{"main": True, "state": "busy", "wait": None, "stack": []}],
            "pending": [],
        }
        found = {rank.rank: rank.snapshot or silent for rank in ranks}
        if self.spec.get("live"):
            self._tell_live(found)
        return found

    def _tell_live(self, found: Snapshots) -> None:
        """What each rank does, for somebody who watches."""
        rows = [_live_row(rank, found.get(rank.rank)) for rank in self.ranks]
        with contextlib.suppress(OSError):
            self.judge.send_bytes(LIVE + json.dumps(rows).encode())

    def _time_out(self, live: list[Watched]) -> None:
        found = self._snapshots(live)
        for rank in live:
            if stopped(rank.pid):  # it cannot answer, and those that wait for it may look as busy as it does
                rank.end({"kind": "killed", "signal": "SIGSTOP"}, self._seconds())
                continue
            main: dict[str, Any] = next(
                (t for t in found[rank.rank]["threads"] if t["main"]), {"wait": None, "stack": []}
            )
            said = asdict(decide.wait_of(main["wait"])) if main["wait"] else None
            stack = main["stack"] or self._stack_by_signal(rank)
            rank.end({"kind": "timed_out", "wait": said, "stack": stack}, self._seconds())

    def _stack_by_signal(self, rank: Watched) -> list[list[Any]]:
        """The main thread's stack as Python's faulthandler writes it, which needs no GIL."""
        code = str(self.folder.code / self.spec["file"])
        with contextlib.suppress(OSError, AttributeError):
            os.kill(rank.pid, signal.SIGUSR2)
            until = time.monotonic() + ANSWER
            while "most recent call first" not in self.folder.stack(rank.rank) and time.monotonic() < until:
                time.sleep(TICK)
            return parse_faulthandler(self.folder.stack(rank.rank), code)
        return []

    def _stop(self, live: list[Watched]) -> None:
        for rank in live:
            rank.end({"kind": "killed", "signal": "SIGKILL", "by_grader": True}, self._seconds())

    # -- ending -----------------------------------------------------------------------------------------------

    def _release(self) -> None:
        """Let ranks that are over leave by themselves, and drain what they printed."""
        for rank in self.ranks:
            rank.ask(b"release")
        if all(rank.ending and rank.ending["kind"] == "finished" for rank in self.ranks):
            until = time.monotonic() + ANSWER
            while not all(rank.gone for rank in self.ranks) and time.monotonic() < until and self._read(TICK):
                pass
        for rank in self.ranks:
            until = time.monotonic() + ANSWER  # what it started may go on printing
            while rank.output is not None and rank.output.poll() and time.monotonic() < until:
                self._take_output(rank)

    def _report(self) -> None:
        seconds = self._seconds()
        stuck = any(rank.ending and rank.ending["kind"] in ("deadlocked", "timed_out") for rank in self.ranks)
        with contextlib.suppress(OSError):
            for rank in self.ranks:
                ending = rank.ending or {"kind": "killed", "signal": "SIGKILL", "by_grader": True, "stack": []}
                trace = unstructure(rank.trace) if rank.trace and (stuck or self.spec.get("trace")) else None
                head = {"rank": rank.rank, "ending": ending, "output": rank.printed.text(), "trace": trace}
                head["device"] = rank.device
                self.judge.send_bytes(wire.encode({**head, "observations": len(rank.observations)}))
                for observation in rank.observations:
                    self.judge.send_bytes(observation)
            self.folder.remove()
            self.judge.send_bytes(wire.encode({"seconds": seconds}))


def _live_row(rank: Watched, snapshot: Mapping[str, Any] | None) -> list[Any]:
    """Rank, what it does, at which line of the student's file."""
    if rank.ending or not snapshot:
        return [rank.rank, rank.ending["kind"] if rank.ending else "starts", None]
    nothing: dict[str, Any] = {"wait": None, "stack": []}
    main: dict[str, Any] = next((thread for thread in snapshot["threads"] if thread["main"]), nothing)
    line = next((row[1] for row in reversed(main["stack"]) if row[3]), None)
    told = f"waits in {decide.wait_of(main['wait']).operation}" if main["wait"] else "computes or sleeps"
    return [rank.rank, told, line]


def _fault(error: OSError, folder: str) -> str:
    """What the system could not do, and the remedy where there is one."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        return f"the scratch folder {folder} could not be used: {reason}. Set TMPDIR to one with room"
    return f"the system gave no more: {reason}"


def main(spec: Mapping[str, Any], judge: Connection) -> None:
    """Entry point of a supervisor process, a fork of the host. Never returns."""
    os.setsid()
    prctl.become_subreaper()
    prctl.die_with_parent()
    try:
        Supervisor(spec, judge).run()
    except OSError as error:
        with contextlib.suppress(OSError):
            judge.send_bytes(wire.encode({"fault": _fault(error, spec["folder"])}))
    except Exception as error:  # a fault of ours: the judge hears of it rather than of silence
        with contextlib.suppress(OSError):
            judge.send_bytes(wire.encode({"fault": f"{type(error).__name__}: {error}"}))
    finally:
        reaper.kill_descendants()
        os._exit(0)
