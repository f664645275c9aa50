"""Where ranks meet: the place that code asked for, and whether it is a right one where the environment names none."""

from __future__ import annotations

import ipaddress

from typing_extensions import TypedDict

LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


class Place(TypedDict):
    """A meeting place, as grader.kit.stores.asked_place noted it. `port` is None where no int was asked for."""

    host: str
    port: int | None


class Group(TypedDict):
    """The default group, as grader.kit.groups.default_group saw it. `meeting` is None where its store tells no address
    and port."""

    rank: int
    world_size: int
    meeting: str | None


def is_loopback(host: str, own_name: str) -> bool:
    """Whether a host name or address means this machine, whose name is `own_name`, and only it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in (*LOOPBACK_NAMES, own_name.lower())


def is_port(port: int | None) -> bool:
    """Whether ranks can agree on this port; where it is 0, rank 0 takes any, and the others cannot know which."""
    return port is not None and 1 <= port <= 65535
