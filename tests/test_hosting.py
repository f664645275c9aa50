"""grader.ranks.hosting: a host that is ended before it has begun leaves nobody."""

from __future__ import annotations

import subprocess
import sys

import psutil

from grader.ranks import hosting

BEGINNING = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"])
child.wait()
"""


def test_a_host_that_is_still_beginning_is_killed_with_its_child() -> None:
    """As bubblewrap is, whose child has not yet asked to end with it."""
    with subprocess.Popen([sys.executable, "-c", BEGINNING], stdout=subprocess.PIPE) as host:
        assert host.stdout and host.stdout.readline() == b"up\n"
        below = psutil.Process(host.pid).children()
        hosting.kill_at_once(host)
        assert below and psutil.wait_procs(below, timeout=60)[1] == []
