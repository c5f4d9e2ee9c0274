"""Sockets for TCP connections between members: how they are made and set up."""

from __future__ import annotations

import socket
import sys
from typing import Final

from ..core.model import UsageError
from .addresses import family_of, format_address
from .transport import Address

SILENCE: Final = 10.0  # seconds after which bytes that the other end does not acknowledge, or its silence, break the connection


def listening_socket(bind: Address) -> socket.socket:
    made = socket.socket(family_of(bind), socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(bind)
        made.listen(socket.SOMAXCONN)
    except OSError as error:
        made.close()
        text = f"cannot listen at {format_address(bind)}: {error.strerror or error}"
        raise UsageError(f"{text}; is another member running there, is it an address of this machine?") from error
    return made


def outgoing_socket(own: Address, address: Address) -> socket.socket:
    """A socket to connect with, from the host at which we listen, so that others see where it comes from."""
    made = socket.socket(family_of(address), socket.SOCK_STREAM)
    try:
        prepare(made)
        # The port that the system takes for our end stays free for a member that wants to listen there.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family_of(address) == family_of(own):
            made.bind((own[0], 0))
    except OSError:
        made.close()
        raise
    return made


def prepare(made: socket.socket) -> None:
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, round(SILENCE / 2))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(SILENCE * 1000))
