"""The judge's side of running ranks: a warm host, a private scratch folder, and data coming back."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import psutil

from grader import leaving
from grader.kit.prctl import become_subreaper, hide
from grader.model import Case, Exercise, OpenedFile, RankRecord, Run, Submission
from grader.model.errors import Cancelled, NoRankStarted, RunError, UsageError
from grader.model.witness import Witness
from grader.ranks import coming_up, hosting, opening, sandbox
from grader.ranks.answer import Live, Printed, heard, received, records, witness_of
from grader.ranks.connections import Connections
from grader.ranks.diagnosis import diagnose
from grader.ranks.host import protocol
from grader.ranks.request import Request, hand_secrets, request_for
from grader.ranks.sandbox import BUBBLEWRAP, level_for
from grader.ranks.watch import reaper, strays
from grader.ranks.watch.folder import remove
from grader.ranks.watch.watched import stopped

_starting, _hosts, _open = threading.Lock(), set[int](), set["Session"]()
"""The hosts that this process has started. What a host that was killed leaves becomes a child of this process as well,
so a session that clears up after its own has to know the others'. And the sessions that have one."""

LEAVING_SECONDS = 5
"""How long a host that is hung up on may take to end what it has, before it is killed."""
DYING_SECONDS = 1
"""How long a host that was killed may take to be gone."""
MARGIN_SECONDS = 120
"""How long after a case's deadline the supervisor may take to say what happened, on a machine that is overloaded."""


class Session:
    """A warm host. `start`, or entering the session, starts the host, which imports torch while the judge does other
    things. Runs that overlap can see one another's files, so only runs of one student may overlap in a session.

    `sandbox` is "auto", "require" or "off"; `level` says what it came to, "bubblewrap" or "limits". `user` names who
    runs the ranks below bubblewrap, which root alone may choose: then file modes keep them from what is not theirs.
    `device` is "auto", "cpu" or "cuda": for "cpu" the ranks see no GPU. That there is one for "cuda" the caller checks.
    Start it in a thread that lives as long as the session: the kernel ends what is inside with the thread that
    started it.
    """

    def __init__(
        self, start_method: str = "forkserver", sandbox: str = "auto", user: str | None = None, device: str = "auto"
    ) -> None:
        self.start_method, self.device = start_method, device
        self.level = level_for(sandbox)
        self._user_name, self._user = user, hosting.user_of(user) if user and self.level != BUBBLEWRAP else None
        self._stack = contextlib.ExitStack()
        self._lock, self._life = threading.Lock(), threading.Lock()
        """The second is held where the session begins, ends or gets an offspring."""
        self._begun = self._ready = self._closed = False
        self._offspring: list[Session] = []
        self._requests = 0
        self._paces: dict[tuple[str, str], float] = {}
        self._connections = Connections()
        self.apart = False
        """Whether each run has a network of its own, where no neighbour can take its ports. Known once it is up."""
        self.missing: tuple[str, ...] = ()
        """Modules that exercises need, and that are found here and not where ranks are. Known once it is up."""

    def __enter__(self) -> Session:
        self.start()
        return self

    @property
    def cancels(self) -> int:
        """How often all runs were called off."""
        return self._connections.cancels

    @property
    def alive(self) -> bool:
        """Whether runs can still be had of it: it was not closed, and its host has not ended."""
        return not self._closed and (not self._begun or self._host.poll() is None)

    def fresh(self) -> Session:
        """Another session of the same kind, not started. It is cancelled and closed with this one. Raises Cancelled
        where this one is closed."""
        with self._life:
            if self._closed:
                raise Cancelled()
            choice = "require" if self.level == BUBBLEWRAP else "off"
            self._offspring = [each for each in self._offspring if not each._closed]
            self._offspring.append(made := Session(self.start_method, choice, self._user_name, self.device))
        return made

    def start(self) -> None:
        """Start the host, without waiting until it has come up. Calling it again does nothing."""
        with self._life:
            if self._closed:
                raise Cancelled()
            if not self._begun:
                self._begin()

    def _begin(self) -> None:
        become_subreaper()  # if the host is killed, what it looked after comes to us
        self._others = frozenset(child.pid for child in psutil.Process().children())
        hide()  # the judge knows what is expected; below bubblewrap ranks run beside it
        self._log: IO[bytes] = self._stack.enter_context(self._scratch_file())
        if self.level == sandbox.LIMITS:
            self.scratch = self._folder()
            self._stack.callback(remove, self.scratch)
            if self._user:
                os.chown(self.scratch, self._user.pw_uid, self._user.pw_gid)
        else:
            self.scratch = Path(protocol.FOLDER)
        self._socket, theirs = socket.socketpair()
        self._stack.callback(self._socket.close)
        with theirs, _starting:
            self._host = self._started(theirs.fileno())
            _hosts.add(self._host.pid)
        _open.add(self)
        self._stack.callback(self._end_host)
        self._begun = True

    def _started(self, descriptor: int) -> subprocess.Popen[bytes]:
        try:
            return hosting.started(descriptor, self.level, self.scratch, self._log, self._user, self.device)
        except PermissionError:
            self._stack.close()
            name = self._user.pw_name if self._user else ""
            raise UsageError(
                f"--rank-user {name}: that user may not run {sys.executable}. Let others enter the folders above it."
            ) from None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the host and every run that is under way. Calling it again does nothing."""
        with self._life:
            self._closed = True
            offspring, self._offspring = self._offspring, []
        for session in offspring:
            session.close()
        self._stack.close()

    def _end_host(self) -> None:
        """Hang up; the host then ends every run. Kill it if it does not leave."""
        self._socket.close()
        if not self._ready:  # it would see that only when all is imported, and has started nothing yet
            hosting.kill_at_once(self._host)
        try:
            self._host.wait(timeout=LEAVING_SECONDS)
        except subprocess.TimeoutExpired:
            self._host.kill()
            self._host.wait()
        _hosts.discard(self._host.pid)
        _open.discard(self)
        if self._ready:
            self._sweep()
        if self.level == sandbox.LIMITS:
            strays.end_strays(self.scratch)

    def await_ready(self) -> None:
        """Wait until ranks could be started. Raises NoRankStarted."""
        with self._lock:
            self._await_ready()

    def _await_ready(self) -> None:
        if self._ready:
            return
        proved = coming_up.proved(self._socket, self._log, self.level)
        self.apart, self.missing = bool(proved["apart"]), tuple(proved["missing"])
        self._ready = True

    def run(
        self,
        exercise: Exercise,
        submission: Submission,
        case: Case,
        live: Live | None = None,
        printed: Printed | None = None,
    ) -> Run:
        """Run one case. Blocks until no rank and nothing that one started is left. Raises RunError where there is no
        result, as NoRankStarted if no rank of this session can be the cause, and Cancelled, without waiting, after
        `cancel` or `call_off`.

        Runs may overlap in threads of one session. `live` hears what stuck ranks do, `printed` what all print.
        """
        self.await_ready()
        start, cancels = time.monotonic(), self.cancels
        facts = {"live": live is not None, "echo": printed is not None, "alone": self.level == BUBBLEWRAP}
        request = request_for(exercise, submission, case, start_method=self.start_method, **facts)
        try:
            found, witness = self._asked(request, case, live, cancels, printed)
            seconds = time.monotonic() - start
            files = self._opened(found, case.deadline - seconds, cancels) if case.opens_files else ()
        except RunError as error:
            if cancels != self.cancels:
                raise Cancelled() from None
            self._sweep()
            if self._requests > 1 and isinstance(error, NoRankStarted):
                raise RunError(str(error)) from None  # ranks of other runs were there
            raise
        self._paces[exercise.name, case.id] = seconds
        diagnosis = diagnose(case, found, submission.path.name, witness)
        return Run(case=case, ranks=found, seconds=seconds, diagnosis=diagnosis, opened=files, witness=witness)

    def pace(self, exercise: Exercise, case: Case) -> float:
        """Seconds that the case took when it last ran here; 0.0 where it has not."""
        return self._paces.get((exercise.name, case.id), 0.0)

    def _opened(self, found: Sequence[RankRecord], left: float, cancels: int) -> tuple[OpenedFile, ...]:
        """The files that the ranks recorded; nothing is started where there are none."""
        files = opening.files_of(found)
        if not files:
            return ()
        request = opening.request_to_open(files, left, start_method=self.start_method, alone=self.level == BUBBLEWRAP)
        return opening.opened(files, self._asked(request, opening.CASE, None, cancels)[0][0])

    def _asked(
        self, request: Request, case: Case, live: Live | None, cancels: int, printed: Printed | None = None
    ) -> tuple[tuple[RankRecord, ...], Witness | None]:
        """What comes of one request. `cancels` is how often runs had been called off when it was made."""
        mine, theirs = socket.socketpair()
        with mine:
            hand_secrets(mine, case)
            with theirs, self._lock:
                self._requests += 1
                self._request(request, theirs.fileno())
            with self._connections.held(mine, case.id, cancels):
                try:
                    answer = received(mine, request.deadline + MARGIN_SECONDS, self._require_awake)
                    messages = list(heard(answer, live, printed))
                    return records(messages), witness_of(messages)
                except RunError:
                    if self._connections.is_off(mine):
                        raise Cancelled() from None
                    raise

    def _require_awake(self) -> None:
        """Raise RunError if the host was stopped by a signal, which below bubblewrap any process of the user can do,
        and end it: the kernel's word for it spares everybody the wait for a host that will never answer."""
        if self.level == sandbox.LIMITS and stopped(self._host.pid):
            self._host.kill()
            raise RunError("The process that ranks start from was stopped by a signal.")

    def cancel(self) -> None:
        """End every run that is under way, from any thread; the host stays warm."""
        self.call_off(None)

    def call_off(self, case: Case | None) -> None:
        """The same of one case."""
        self._connections.call_off(case.id if case else None)
        with self._life:
            offspring = list(self._offspring)
        for session in offspring:
            session.call_off(case)

    def _sweep(self) -> None:
        """If the host was killed, end what it looked after. Under bubblewrap the kernel has done so."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.level == sandbox.LIMITS and self._host.wait(timeout=DYING_SECONDS) != 0:
                with _starting:
                    reaper.kill_orphans(spare=self._others | _hosts)

    def _request(self, request: Request, descriptor: int) -> None:
        try:
            protocol.send(self._socket, request, descriptor)
        except OSError as error:
            raise NoRankStarted("The process that ranks start from has ended. Was it killed? Try again.") from error

    def _folder(self) -> Path:
        return Path(hosting.temporary(lambda: tempfile.mkdtemp(prefix=protocol.SCRATCH)))

    def _scratch_file(self) -> IO[bytes]:
        return hosting.temporary(tempfile.TemporaryFile)


@leaving.at_last
def end_all() -> None:
    """End every host of this process and all below them at once, from any thread and whatever the others do."""
    if _open:
        reaper.kill_descendants()
    for session in list(_open):
        if session.level == sandbox.LIMITS:  # below bubblewrap every session's folder has the same name
            strays.end_strays(session.scratch)
            remove(session.scratch)
