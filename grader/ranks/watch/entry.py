"""What a fork of the host runs that is to watch one run: the beginning and the end of a supervisor process."""

from __future__ import annotations

import contextlib
import os
from multiprocessing.connection import Connection
from pathlib import Path

from grader.kit import prctl
from grader.ranks.request import Request
from grader.ranks.watch import network, reaper
from grader.ranks.watch.supervisor import Supervisor
from grader.ranks.watch.telling import fault
from grader.records import wire


def main(request: Request, folder: Path, judge: Connection, apart: bool) -> None:
    """Entry point of a supervisor process, a fork of the host; `apart` from the networks of others. Never returns."""
    os.setsid()
    prctl.become_subreaper()
    prctl.die_with_parent()
    supervisor = None
    try:
        if apart:
            network.move_to_own()
        supervisor = Supervisor(request, folder, judge, apart)
        supervisor.run()
    except Exception as error:  # the judge hears of it rather than of silence
        early = supervisor is None or not supervisor.has_ranks
        with contextlib.suppress(OSError):
            judge.send_bytes(wire.encode({"fault": fault(error, str(folder)), "early": early}))
    finally:
        reaper.kill_descendants()
        os._exit(0)
