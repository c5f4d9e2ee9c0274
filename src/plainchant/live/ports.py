"""Free ports on this machine, for groups whose members all run here: examples, benchmarks and tests."""

from __future__ import annotations

import socket


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
