"""A stand-in takes the place of torch's own function under every name, wherever it has got since the host looked."""

from __future__ import annotations

import socket
import sys
import types
from collections.abc import Callable, Iterator

import pytest
import torch.distributed

from grader.kit import ports, stores

NAME = "torch.distributed.of_a_test"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    made = types.ModuleType(NAME)
    monkeypatch.setitem(sys.modules, NAME, made)
    monkeypatch.setattr(stores, "NAMES", stores.Names())
    yield made


def function() -> Callable[[], None]:
    return lambda: None


def test_every_name_has_the_new_one_and_then_the_old_one_again(module: types.ModuleType) -> None:
    old, new = function(), function()
    module.one = module.two = old  # type: ignore[attr-defined]
    stores.NAMES.note()
    stores.replace_everywhere([(old, new)])
    assert module.one is module.two is new  # type: ignore[attr-defined]
    stores.replace_everywhere([(new, old)])
    assert module.one is module.two is old  # type: ignore[attr-defined]


def test_what_was_put_there_since_is_found(module: types.ModuleType) -> None:
    """By a wrapper, in a module that is imported later, and where another has its name now."""
    first, wrapper, new = function(), function(), function()
    module.one = module.two = first  # type: ignore[attr-defined]
    stores.NAMES.note()
    module.one = wrapper  # type: ignore[attr-defined]
    sys.modules[f"{NAME}.later"] = later = types.ModuleType("later")
    later.three = wrapper  # type: ignore[attr-defined]
    try:
        stores.replace_everywhere([(wrapper, new), (first, new)])
    finally:
        del sys.modules[f"{NAME}.later"]
    assert module.one is module.two is later.three is new  # type: ignore[attr-defined]


def test_a_module_that_is_imported_after_the_look_counts(module: types.ModuleType) -> None:
    old, new = function(), function()
    module.one = old  # type: ignore[attr-defined]
    stores.NAMES.note()
    sys.modules[f"{NAME}.later"] = later = types.ModuleType("later")
    later.one = old  # type: ignore[attr-defined]
    try:
        stores.replace_everywhere([(old, new)])
    finally:
        del sys.modules[f"{NAME}.later"]
    assert module.one is later.one is new  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no 127.0.1.1 of their own")
@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.1"])
def test_a_reserved_port_is_given_to_nobody_at_any_address(address: str) -> None:
    """Held at one address alone, the kernel gives it away at another one, where gloo and NCCL listen."""
    port = stores.reserved_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((address, port))
    for said in ("localhost", "127.0.0.1"):
        torch.distributed.TCPStore(said, port, 1, True)


def test_without_ipv6_it_is_held_at_all_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    original = socket.socket

    def without(family: int = socket.AF_INET, *rest: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError("Address family not supported by protocol")
        return original(family, *rest)

    monkeypatch.setattr(socket, "socket", without)
    with ports.bound_socket() as holder:
        assert holder.getsockname()[0] == "0.0.0.0"
