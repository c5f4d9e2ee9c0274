"""Transports by name: ours, and those that installed distributions declare as entry points.

A distribution declares ``name = "module:make"`` in the group ``plainchant.transports``, where ``make(address, packet)`` returns
a :class:`~.transport.Transport` at that address for packets of ``packet`` bytes. ``Node``, ``join`` and the configuration of
``plainchant node`` then know it by that name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Final

from ..core.model import UsageError
from ..core.plugins import plugins
from .transport import Address, MakeTransport, Transport

ENTRY_POINTS: Final = "plainchant.transports"


def transports() -> tuple[str, ...]:
    """The names of all transports, ours first."""
    return (*_OWN, *(name for name in plugins(ENTRY_POINTS) if name not in _OWN))


def transport_maker(transport: str | MakeTransport) -> MakeTransport:
    """What makes a node's transport: the named one, or the function that was given."""
    if not isinstance(transport, str):
        return transport
    if transport in _OWN:
        return _OWN[transport]
    plugin = plugins(ENTRY_POINTS).get(transport)
    if plugin is None:
        names = transports()
        known = f"{', '.join(names[:-1])} and {names[-1]}"
        raise UsageError(f"there is no transport {transport!r}; there are {known}, or give a function that makes one")
    loaded = plugin.load()
    if not callable(loaded):
        raise plugin.error(f"expected a function make(address, packet), got {type(loaded).__name__}")
    make: MakeTransport = loaded
    return make


def _make(name: str, address: Address, packet: int) -> Transport:
    """One of ours, whose module is loaded only now. TCP has packets of a size of its own."""
    kind: Callable[..., Transport] = getattr(import_module(f".{name}", __package__), f"{name.capitalize()}Transport")
    return kind(address) if name == "tcp" else kind(address, packet=packet)


_OWN: Final[dict[str, MakeTransport]] = {name: partial(_make, name) for name in ("udp", "tcp", "multicast")}
