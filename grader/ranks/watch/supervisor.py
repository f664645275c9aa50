"""Watches the ranks of one run from a process of its own, which never imports student code.

It starts the ranks, reads what they send, tells the endings apart, calls a deadlock, and leaves no process behind.
The judge gets, over one connection, a wire frame for each rank and a last one for the run.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from grader.kit import ports
from grader.model import MIB, Deadlocked, Ending, Finished, Killed, Raised, TimedOut, Wait
from grader.model.errors import WireError
from grader.ranks.request import Request, secrets_from
from grader.ranks.watch import quiet, reaper, usage
from grader.ranks.watch.account import OverBudget, require_affordable
from grader.ranks.watch.census import Excess, census_of
from grader.ranks.watch.channel import Answer, Hello, Imported, Message, Observation, ToBeSeen, TraceSoFar, message_of
from grader.ranks.watch.decide import DeadlockRule, grace_is_over, waits
from grader.ranks.watch.evidence import NO_ANSWER, Snapshot, main_thread
from grader.ranks.watch.folder import RunFolder
from grader.ranks.watch.gloo import GlooEvidence
from grader.ranks.watch.late import excess_endings, late_endings
from grader.ranks.watch.sight import Sights
from grader.ranks.watch.starting import given_port, started
from grader.ranks.watch.telling import STOPPED, deadlocked, live_message, live_row, printed_message, told
from grader.ranks.watch.watched import Watched, ending_of, stopped
from grader.ranks.watch.witness import Watcher
from grader.records import wire
from grader.records.structure import unstructure

TICK = 0.04
LOOKS_APART = 0.02
"""Seconds between two looks for a deadlock at least: every message of a rank wakes the supervisor."""
ANSWER = 1.0
"""Seconds that a rank gets to answer a snapshot or to flush after its end."""
LAST_READS = 128
"""So often the channel of a rank that has ended is read once more; each time up to 4 MiB."""
BUSY = 3.0
"""Seconds after which somebody who watches is told what busy ranks do; again after twice as many, and so on."""
START_SECONDS = 90.0
"""How long interpreters may take to start and import torch, which they do anew where there is no fork."""


class Supervisor:
    """One run, which may be `apart` in a network of its own. `run()` returns when every rank is over and no process is
    left."""

    def __init__(self, request: Request, folder: Path, judge: Connection, apart: bool) -> None:
        self.request, self.judge, self.apart = request, judge, apart
        self.folder = RunFolder(folder, request.files, request.world_size)
        base = usage.own_memory(os.getpid())
        self.census = census_of(request, self.folder.path, base)
        self.sights = Sights(self.folder, base, request.world_size)
        self.rule, self.watch = DeadlockRule(request.world_size), quiet.Watch()
        self.ranks: list[Watched] = []
        self.secrets: list[int] = []
        self.questions, self.busy_told, self.looked = 0, BUSY, 0.0
        self.has_ranks = False
        """Whether a rank may have been started."""
        self.began = self.start = time.monotonic()

    def run(self) -> None:
        with ports.bound_socket() as holder:
            port = holder.getsockname()[1]
            given = given_port(self.request, port)
            self.witness = Watcher(port, self.folder.rendezvous, given=given, apart=self.apart)
            self.has_ranks = True
            self.ranks = started(self.request, self.folder, port, int(1e9 * self.began))
            self.start = time.monotonic()
            with contextlib.suppress(OSError, EOFError):
                self.secrets = secrets_from(self.judge)  # not earlier: no rank may be forked from one who knows them
            while any(rank.live for rank in self.ranks):
                if not self._read(TICK):
                    break  # the judge has gone or lost interest
                self.witness.look(self._present())
                self._look()
            self._release()
        reaper.kill_descendants()
        self._report()

    def _seconds(self) -> float:
        """Since the run began: the clock of endings and traces. The deadline counts from when the ranks were ready."""
        return time.monotonic() - self.began

    # -- reading ----------------------------------------------------------------------------------------------

    def _read(self, timeout: float) -> bool:
        """Take in what has arrived. False if the judge has hung up."""
        channels = {rank.channel: rank for rank in self.ranks if not rank.gone}
        outputs = {rank.output: rank for rank in self.ranks if rank.output is not None}
        sentinels = {rank.process.sentinel: rank for rank in self.ranks if not rank.gone}
        ready = set(wait([self.judge, *channels, *outputs, *sentinels], timeout))
        for rank in (rank for channel, rank in channels.items() if channel in ready):
            self._take_channel(rank)
        if self.judge in ready:
            return False
        for rank in (rank for output, rank in outputs.items() if output in ready):
            self._take_output(rank)
        for sentinel, rank in sentinels.items():  # what a rank has started may hold its end of this pipe
            if sentinel in ready or rank.process.exitcode is not None:
                self._take_sentinel(rank)
        self._hand_out()
        return True

    def _hand_out(self) -> None:
        """Give each rank its secret, once no rank is left that has not imported the student's file."""
        if self.secrets and all(rank.imported or not rank.live for rank in self.ranks):
            for rank, secret in zip(self.ranks, self.secrets, strict=True):
                rank.ask(b"secret %d" % secret)
            self.secrets = []

    def _take_channel(self, rank: Watched) -> None:
        try:
            for message in rank.inbox.take():
                self._message(rank, message)
            require_affordable(each.account.cost + each.inbox.pending for each in self.ranks)
        except (WireError, OverBudget) as error:
            self._forged(rank, error)
        except (EOFError, OSError):
            self._take_sentinel(rank)

    def _take_output(self, rank: Watched) -> None:
        if rank.output is None:
            return
        data = os.read(rank.output.fileno(), 1 << 16)
        if data:
            rank.printed.add(data)
            if self.request.echo:
                with contextlib.suppress(OSError):
                    self.judge.send_bytes(printed_message(rank.rank, data))
        else:
            rank.output.close()
            rank.output = None

    def _take_sentinel(self, rank: Watched) -> None:
        """The process has ended or hung up: if it had not said how, say so for it."""
        if rank.gone:
            return
        with contextlib.suppress(EOFError, OSError, WireError, OverBudget):
            for _ in range(LAST_READS):  # what it has started may still hold the channel and go on
                if not rank.channel.poll():
                    break
                for message in rank.inbox.take():
                    self._message(rank, message)
        code = rank.exit_code(ANSWER)
        rank.gone = True
        self._end(rank, ending_of(code))

    def _forged(self, rank: Watched, error: WireError | OverBudget) -> None:
        """A rank that sends what no rank sends, or more than it may, has failed. Nothing more is read from it."""
        rank.gone = True
        if isinstance(error, OverBudget):
            rank.observations.clear()
            self._end(rank, Killed(signal="SIGKILL", by_grader=True, limit=str(error)))
        self._end(rank, Raised(type="MalformedMessage", message=f"the rank's process sent the grader {error}"))

    def _message(self, rank: Watched, data: bytes) -> None:
        message: Message = message_of(data, self.request.file)
        if isinstance(message, ToBeSeen):
            return self.sights.look(rank, message.name, {each.rank: each.pid for each in self.ranks})
        if not isinstance(message, Observation):
            rank.account.answer()
        match message:
            case Observation():
                rank.account.observe(message.frame)
                if rank.live:
                    rank.observations.append(message.frame)
            case Hello() if not rank.ready:
                rank.own, rank.device, rank.ready = message.threads, message.device, True
                self.start = time.monotonic()
            case Imported():
                rank.imported = True
            case Answer() if message.request == rank.asked:
                rank.snapshot = message.snapshot
            case TraceSoFar() if rank.live:
                rank.trace = message.trace
            case Ending():
                self._end(rank, message)

    def _end(self, rank: Watched, ending: Ending) -> None:
        rank.end(ending, self._seconds())

    # -- judging the live ones --------------------------------------------------------------------------------

    def _look(self) -> None:
        live = [rank for rank in self.ranks if rank.live]
        if not live:
            return
        if time.monotonic() - self.start > self._patience():
            self._time_out(live)
        elif found := self._excess(live):
            self._end_excess(live, found)
        elif grace_is_over([rank.ending for rank in self.ranks], self._seconds(), crashes=self.request.crashes):
            for rank in live:
                self._end(rank, STOPPED)
        elif all(rank.ready for rank in live) and time.monotonic() - self.looked >= LOOKS_APART:
            self.looked = time.monotonic()
            self._look_for_deadlock()

    def _patience(self) -> float:
        """Seconds that the ranks have, counted from when the last of them was ready for the student's code: what an
        interpreter takes to start is not the student's. One that was stopped meanwhile will not be ready."""
        started = all(rank.ready or stopped(rank.pid) for rank in self.ranks)
        return self.request.deadline if started else START_SECONDS

    def _excess(self, live: list[Watched]) -> Excess | None:
        """The limit that was passed, if any."""
        most = self.request.limits.output
        loud = frozenset(rank.rank for rank in live if rank.printed.total > most)
        if loud:
            return Excess(f"output: more than {most // MIB} MiB", loud)
        return self.census.excess(self._present(), {rank.pid for rank in self.ranks if not rank.ready})

    def _present(self) -> dict[int, int]:
        """The ranks whose processes are there, with those, whether or not they have said how they ended."""
        return {rank.rank: rank.pid for rank in self.ranks if not rank.gone}

    def _end_excess(self, live: list[Watched], found: Excess) -> None:
        """End the run."""
        endings = excess_endings(live, found, self.folder, self.request.file)
        for rank in live:
            self._end(rank, endings[rank.rank])
        reaper.kill_descendants()

    def _look_for_deadlock(self) -> None:
        evidence = GlooEvidence(self.ranks, self.watch, self._snapshots, lambda: self.witness.moved(self._present()))
        found = self.rule.look(evidence)
        if not found and self.request.live and time.monotonic() - self.start > self.busy_told and not evidence.idle():
            self.busy_told *= 2
            self._snapshots([rank for rank in self.ranks if rank.live])
        self._end_deadlocked(found)

    def _end_deadlocked(self, found: Mapping[int, Wait]) -> None:
        for rank in self.ranks:
            if rank.rank in found:
                main = main_thread(rank.snapshot or NO_ANSWER)
                self._end(rank, deadlocked(found[rank.rank], main, let_go=rank.pid in self.watch.turning))

    def _snapshots(self, ranks: list[Watched]) -> dict[int, Snapshot]:
        """Ask each rank what it does. One that cannot answer holds the GIL in C: it counts as busy."""
        self.questions += 1
        for rank in ranks:
            rank.snapshot, rank.asked = None, str(self.questions)
            rank.ask(rank.asked.encode())
        until = time.monotonic() + ANSWER
        while any(r.live and r.snapshot is None for r in ranks) and time.monotonic() < until and self._read(TICK):
            pass
        found = {rank.rank: rank.snapshot or NO_ANSWER for rank in ranks}
        if self.request.live:
            self._tell_live(found)
        return found

    def _tell_live(self, found: dict[int, Snapshot]) -> None:
        """What each rank does, for somebody who watches."""
        with contextlib.suppress(OSError):
            self.judge.send_bytes(live_message([live_row(rank, found.get(rank.rank)) for rank in self.ranks]))

    def _time_out(self, live: list[Watched]) -> None:
        seen = self._snapshots(live)
        if not quiet.can_tell() and (found := waits(seen)):  # all sit in communication
            return self._end_deadlocked(found)
        endings = late_endings(live, seen, self.folder, self.request.file)
        for rank in live:
            self._end(rank, endings[rank.rank])

    # -- ending -----------------------------------------------------------------------------------------------

    def _release(self) -> None:
        """Let ranks that are over leave by themselves, and drain what they printed."""
        self.witness.look(self._present(), now=True)
        for rank in self.ranks:
            rank.ask(b"release")
        if all(isinstance(rank.ending, Finished) for rank in self.ranks):
            until = time.monotonic() + ANSWER
            while not all(rank.gone for rank in self.ranks) and time.monotonic() < until and self._read(TICK):
                pass
        for rank in self.ranks:
            until = time.monotonic() + ANSWER  # what it started may go on printing
            while rank.output is not None and rank.output.poll() and time.monotonic() < until:
                self._take_output(rank)

    def _report(self) -> None:
        seconds = self._seconds()
        stuck = any(isinstance(rank.ending, Deadlocked | TimedOut) for rank in self.ranks)
        with contextlib.suppress(OSError):
            for rank in self.ranks:
                self.judge.send_bytes(told(rank, stuck or self.request.trace))
                for observation in rank.observations:
                    self.judge.send_bytes(observation)
            self.folder.remove()
            witness = replace(self.witness.told(), seen=self.sights.told)
            self.judge.send_bytes(wire.encode({"seconds": seconds, "witness": unstructure(witness)}))
