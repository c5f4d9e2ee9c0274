"""Free ports on this machine, for groups whose members all run here: examples, benchmarks and tests."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from random import Random
from typing import Final, TypeVar

from ..core.model import PlainchantError
from .transport import Address

_PORTS: Final = range(10_240, 32_768)  # ports that no system hands out by itself
_Place = TypeVar("_Place")


def free_ports(count: int, kind: socket.SocketKind = socket.SOCK_DGRAM) -> list[int]:
    """Ports on loopback that no process uses now."""
    taken = [socket.socket(socket.AF_INET, kind) for _ in range(count)]
    try:
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]
    finally:
        for each in taken:
            each.close()


def free_addresses(places: Iterable[_Place]) -> dict[_Place, Address]:
    """A free address on loopback for each place; none that systems hand out, because a process that restarts needs its port
    again."""
    places = list(places)
    found: dict[_Place, Address] = {}
    for port in Random().sample(_PORTS, len(_PORTS)):
        if len(found) == len(places):
            return found
        if _is_free(port):
            found[places[len(found)]] = ("127.0.0.1", port)
    raise PlainchantError(f"there are not enough free ports for {len(places)} processes on this machine; take fewer members")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
