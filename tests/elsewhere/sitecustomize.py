"""Takes away what is Linux alone, before all else: /proc, prctl, seccomp, and calls that macOS lacks."""

import importlib.machinery
import os
import select
import signal
import socket
import sys
import types

LACKING = {
    os: ("waitid", "sched_getaffinity", "sched_setaffinity", "sched_setscheduler", "sched_param", "SCHED_BATCH",
         "memfd_create", "pidfd_open", "eventfd", "pipe2", "splice", "getxattr", "setxattr", "posix_fadvise"),
    signal: ("pidfd_send_signal", "sigwaitinfo", "sigtimedwait"),
    socket: ("AF_NETLINK", "AF_VSOCK"),
    select: ("epoll",),
}  # fmt: skip
ELSEWHERE = (
    "grader.kit.prctl",
    "grader.ranks.inside.seccomp",
    "grader.ranks.sandbox",
    "grader.ranks.host.pages",
)
"""Modules that ask which system this is. Those that need the loopback's name are let alone: it is this kernel's."""


class Darwin(types.ModuleType):
    """sys, as one of those modules sees it."""

    platform = "darwin"

    def __getattr__(self, name):
        return getattr(sys, name)


def is_psutil():
    """Whether psutil is what looks: elsewhere it asks the system otherwise."""
    frame = sys._getframe(2)
    while frame is not None:
        if "/psutil/" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def refuse(path):
    if isinstance(path, (str, bytes, os.PathLike)):
        text = os.fsdecode(path)
        if (text == "/proc" or text.startswith("/proc/")) and not is_psutil():
            raise FileNotFoundError(2, "No such file or directory", text)


def audit(event, arguments):
    if event in ("open", "os.listdir", "os.scandir"):
        refuse(arguments[0])


def refusing(function):
    def call(path, *more, **named):
        refuse(path)
        return function(path, *more, **named)

    return call


def loaded(execute):
    def run(self, module):
        execute(self, module)
        if module.__name__ in ELSEWHERE:
            module.sys = Darwin("sys")

    return run


sys.addaudithook(audit)
for name in ("stat", "lstat", "readlink"):  # of these no hook is told
    setattr(os, name, refusing(getattr(os, name)))
for module, names in LACKING.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
importlib.machinery.SourceFileLoader.exec_module = loaded(importlib.machinery.SourceFileLoader.exec_module)
