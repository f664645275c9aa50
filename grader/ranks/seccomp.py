"""A seccomp program that refuses what no exercise needs and what namespaces do not stop.

Sockets other than Unix, IP and netlink (a vsock leads out of a virtual machine, whatever the network namespace says),
io_uring (it opens sockets without the system call), looking into other processes, and doors into the kernel. Refused
calls fail with EPERM. The program is classic BPF as seccomp(2) describes it; bubblewrap loads it.
"""

from __future__ import annotations

import platform
import struct
import tempfile
from typing import IO

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1
_X32 = 0x40000000
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK."""
_SOCKET = {"x86_64": (41, 53), "aarch64": (198, 199)}
"""socket, socketpair"""
_REFUSED = {
    "x86_64": (
        101,
        310,
        311,
        438,
        425,
        426,
        427,
        321,
        298,
        323,
        248,
        249,
        250,
        272,
        308,
        165,
        166,
        155,
        246,
        320,
        175,
        313,
    ),
    "aarch64": (
        117,
        270,
        271,
        438,
        425,
        426,
        427,
        280,
        241,
        282,
        217,
        218,
        219,
        97,
        268,
        40,
        39,
        41,
        104,
        294,
        105,
        273,
    ),
}
"""ptrace, process_vm_readv, process_vm_writev, pidfd_getfd, io_uring_setup, io_uring_enter, io_uring_register, bpf,
perf_event_open, userfaultfd, add_key, request_key, keyctl, unshare, setns, mount, umount2, pivot_root, kexec_load,
kexec_file_load, init_module, finit_module"""
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def program() -> IO[bytes]:
    """A file without a name that holds the program for this machine; on an unknown one a program that allows all."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(assembled(platform.machine()))
    file.flush()
    file.seek(0)
    return file


def assembled(machine: str) -> bytes:
    """The instructions for one kind of machine. Another architecture's calls (int 0x80, x32) are refused whole."""
    if machine not in _ARCHITECTURES:
        return _instruction(_RETURN, _ALLOW)
    code = [_instruction(_LOAD, _ARCHITECTURE), _instruction(_EQUAL, _ARCHITECTURES[machine], 1, 0), REFUSE]
    code += [_instruction(_LOAD, _NUMBER), _instruction(_AT_LEAST, _X32, 0, 1), REFUSE]
    for number in _REFUSED[machine]:
        code += [_instruction(_EQUAL, number, 0, 1), REFUSE]
    checks = [_instruction(_EQUAL, family, 0, 1) + ALLOW for family in _FAMILIES]
    families = [_instruction(_LOAD, _FIRST_ARGUMENT), *checks, REFUSE]
    length = sum(len(part) for part in families) // 8
    first, second = _SOCKET[machine]
    code += [_instruction(_EQUAL, first, 1, 0), _instruction(_EQUAL, second, 0, length), *families, ALLOW]
    return b"".join(code)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


REFUSE, ALLOW = _instruction(_RETURN, _REFUSE), _instruction(_RETURN, _ALLOW)
