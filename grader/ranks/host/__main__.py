"""`python -m grader.ranks.host DESCRIPTOR LEVEL CLAIMS`: what the judge starts, inside the sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from grader.kit import prctl
from grader.ranks.host import keeper, proof
from grader.ranks.host.protocol import READY, SCRATCH
from grader.ranks.host.serve import preload, serve
from grader.ranks.watch import network
from grader.ranks.watch.folder import remove
from grader.ranks.watch.reaper import kill_descendants


def main() -> None:
    """Import what ranks need, prove the isolation, serve runs until the judge hangs up, leave nothing behind."""
    judge = socket.socket(fileno=int(sys.argv[1]))
    level, claims, variables = sys.argv[2], json.loads(sys.argv[3]), frozenset(os.environ)
    prctl.become_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the judge, which then hangs up
    here = str(Path.cwd())
    sys.path[:] = [entry for entry in sys.path if entry not in ("", here)]  # ranks can write there what we would import
    if keeper.has_hung_up(judge):
        leave(frozenset())
    kept = frozenset([keeper.started(judge)] if level == "limits" else [])
    preload()
    prctl.hide()
    found = proof.breaches(level, claims, variables)
    apart = level == "bubblewrap" and proof.networks_are_had()
    if apart:
        network.let_tables_be_own()
    with contextlib.suppress(BrokenPipeError):
        missing = [module for module in claims["modules"] if find_spec(module) is None]
        answer = json.dumps({"breaches": found, "apart": apart, "missing": missing}).encode()
        judge.sendall(READY + struct.pack(">I", len(answer)) + answer)
        serve(judge, apart, kept)
    leave(kept)


def leave(kept: frozenset[int]) -> NoReturn:
    """End all that is below, but those who look after this process, and this process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    kill_descendants(kept)
    if Path.cwd().name.startswith(SCRATCH):  # a judge that was killed cannot remove it
        remove(Path.cwd())
    os._exit(0)  # taking a thousand modules apart would cost a fifth of a second


main()
