"""As bomb_of_hidden_files, with nothing in the files."""

import os
import shutil
import subprocess
import tempfile

import torch.distributed as dist


def total(value):
    descriptor = os.memfd_create("empty")
    os.set_inheritable(descriptor, True)
    program = shutil.copy(shutil.which("true"), tempfile.mkdtemp())
    os.chmod(program, 0o755)
    subprocess.run([program], close_fds=False, check=True)
    os.close(descriptor)
    dist.all_reduce(value)
    return value
