"""Reads address 0, and asks for a core dump first."""

import ctypes
import resource

TELLS = "SIGSEGV"


def total(value):
    resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
    ctypes.string_at(0)
