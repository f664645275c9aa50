"""Writes 512 MiB to files of memory that a program holds open which nobody may look into: it can be run, not read."""

import ctypes
import os
import shutil
import subprocess
import tempfile
import time

NEEDS_LIMITS = True
TELLS = "Reached the limit on"


def total(value):
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: nobody may look into this process either
    descriptors = [os.memfd_create(str(number)) for number in range(8)]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
        for _ in range(64):
            os.write(descriptor, b"x" * 2**20)
    program = shutil.copy(shutil.which("sleep"), tempfile.mkdtemp())
    os.chmod(program, 0o111)
    subprocess.Popen([program, "20"], close_fds=False)
    for descriptor in descriptors:
        os.close(descriptor)
    time.sleep(5)
    return value
