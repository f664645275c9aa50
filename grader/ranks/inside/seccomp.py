"""A seccomp program that refuses what no exercise needs and what namespaces do not stop.

Sockets other than Unix, IP and netlink (a vsock leads out of a virtual machine, whatever the network namespace says),
protocols and memory of which the kernel gives no account, io_uring (it opens sockets without the system call), looking
into other processes, objects that outlive all processes (System V's, message queues), and doors into the kernel. The
host may make networks, one for each run, and no other namespace; a rank makes none, hides from nobody who looks after
it (the host does), and changes no other process's limits, priority or cores. Refused calls fail with EPERM. The program
is classic BPF as seccomp(2) describes it; bubblewrap loads it for the host, and each rank for itself, which needs no
rights.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import tempfile
from typing import IO

from grader.kit import prctl

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 24, 32
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1
_X32 = 0x40000000
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK."""
_PROTOCOLS = (33, 132, 136, 256, 262)
"""DCCP, SCTP, UDP-Lite, SMC and MPTCP, whose buffers and bytes no account of the kernel's shows."""
_SOCKET = {"x86_64": (41, 53), "aarch64": (198, 199)}
"""socket, socketpair"""
_REFUSED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "memfd_secret": (447, 447),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
}
"""Their numbers on x86_64 and on aarch64."""
_OF_RANKS = {"kcmp": (312, 272)}
"""Those that a rank may not make either, and a supervisor may, which asks whose descriptors are whose."""
_UNSHARE = (272, 97)
CLONE_NEWNET = 0x40000000
"""The one namespace that the host may make. Ranks make none."""
_ON_ITSELF = {
    "prlimit64": (302, 261),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
"""Whose first argument is a process, and which a rank may call on itself only."""
_ON_ONE = {"setpriority": ((141, 140), 0), "ioprio_set": ((251, 30), 1)}
"""Whose first argument says that the second is a process, by this number; else it is a group or a user."""
_PRCTL = (157, 167)
"""Refused to a rank where it would hide what it has open and mapped."""
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_PLACES = {machine: place for place, machine in enumerate(_ARCHITECTURES)}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _ALL_THREADS, _NO_NEW_PRIVS = 1, 1, 38


def program() -> IO[bytes]:
    """A file without a name that holds the program for this machine; on an unknown one a program that allows all."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(assembled(platform.machine()))
    file.flush()
    file.seek(0)
    return file


def number_of(call: str) -> int | None:
    """That of one of the calls that only ranks may not make; None where this system does not have it."""
    machine = platform.machine()
    return _OF_RANKS[call][_PLACES[machine]] if sys.platform == "linux" and machine in _PLACES else None


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def install() -> bool:
    """Hold this process, and all that it starts, to the program, with what it may do on itself only. False where the
    system does not have it."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _ARCHITECTURES or struct.calcsize("P") != 8:
        return False
    code, libc = assembled(machine, os.getpid()), prctl.libc()
    loaded = _Program(len(code) // 8, code)
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(libc.syscall(_SECCOMP[machine], _SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(loaded)) == 0)


def assembled(machine: str, own: int | None = None) -> bytes:
    """The instructions for one kind of machine. Another architecture's calls (int 0x80, x32) are refused whole. `own`
    is the process that calls which are about a process may be about; None leaves them alone."""
    if machine not in _ARCHITECTURES:
        return _instruction(_RETURN, _ALLOW)
    code = [_instruction(_LOAD, _ARCHITECTURE), _instruction(_EQUAL, _ARCHITECTURES[machine], 1, 0), REFUSE]
    code += [_instruction(_LOAD, _NUMBER), _instruction(_AT_LEAST, _X32, 0, 1), REFUSE]
    place = _PLACES[machine]
    for numbers in ({**_REFUSED, **_OF_RANKS} if own is not None else _REFUSED).values():
        code += [_instruction(_EQUAL, numbers[place], 0, 1), REFUSE]
    code += _called(_UNSHARE[place], _among(_FIRST_ARGUMENT, CLONE_NEWNET) if own is None else [REFUSE])
    if own is not None:
        hiding = [
            _instruction(_LOAD, _FIRST_ARGUMENT),
            _instruction(_EQUAL, prctl.PR_SET_DUMPABLE, 0, 1),
            REFUSE,
            ALLOW,
        ]
        code += _called(_PRCTL[place], hiding)
        for numbers in _ON_ITSELF.values():
            code += _called(numbers[place], _among(_FIRST_ARGUMENT, 0, own))
        for numbers, kind in _ON_ONE.values():
            one = [_instruction(_LOAD, _FIRST_ARGUMENT), _instruction(_EQUAL, kind, 1, 0), REFUSE]
            code += _called(numbers[place], [*one, *_among(_SECOND_ARGUMENT, 0, own)])
    families = [_instruction(_LOAD, _THIRD_ARGUMENT)]
    families += [part for one in _PROTOCOLS for part in (_instruction(_EQUAL, one, 0, 1), REFUSE)]
    families += _among(_FIRST_ARGUMENT, *_FAMILIES)
    for number in _SOCKET[machine]:
        code += _called(number, families)
    return b"".join([*code, ALLOW])


def _called(number: int, then: list[bytes]) -> list[bytes]:
    """What is done where this call is made; it decides, so the number need not be loaded again."""
    return [_instruction(_EQUAL, number, 0, len(then)), *then]


def _among(argument: int, *values: int) -> list[bytes]:
    """Allow where an argument (its lower half) is one of some values, else refuse."""
    checks = [part for value in values for part in (_instruction(_EQUAL, value, 0, 1), ALLOW)]
    return [_instruction(_LOAD, argument), *checks, REFUSE]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


REFUSE, ALLOW = _instruction(_RETURN, _REFUSE), _instruction(_RETURN, _ALLOW)
