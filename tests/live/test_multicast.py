"""IP multicast, each case in a process with a network namespace of its own: nothing leaves for a real network."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plainchant.core.model import UsageError
from plainchant.live.multicast import MulticastTransport
from plainchant.live.transport import Address

from .endpoints import HOST
from .multicast_cases import CASES, GROUP, own_namespace

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def namespace_command() -> tuple[str, ...]:
    """The command that runs another one in a new network namespace, as root or as anybody; nothing where neither may."""
    unshare = shutil.which("unshare")
    for options in (("--net",), ("--map-root-user", "--net")):
        if unshare and subprocess.run([unshare, *options, "true"], capture_output=True, timeout=30).returncode == 0:
            return (unshare, *options)
    return ()


@pytest.mark.parametrize("case", CASES)
def test_multicast(case: str) -> None:
    if not namespace_command():
        pytest.skip("no network namespace can be made here (it takes Linux, unshare, and root or user namespaces)")
    command = [*namespace_command(), sys.executable, "-m", "tests.live.multicast_cases", case, own_namespace()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize(
    ("bind", "settings", "hint"),
    [
        (("::1", 0), {}, "multicast is for IPv4"),
        ((HOST, 0), {"group": ("ff02::1", 7000)}, "multicast is for IPv4"),
        (("0.0.0.0", 0), {}, "give the one that peers know"),
        ((HOST, 0), {"group": ("10.0.0.1", 7000)}, "is no multicast group"),
        ((HOST, 0), {"group": ("239.1.2.3", 0)}, "is no multicast group"),
        ((HOST, 0), {"ttl": 256}, "time to live"),
        ((HOST, 0), {"packet": 100}, "at least"),
    ],
)
def test_what_cannot_be_is_refused_with_advice(bind: Address, settings: dict[str, object], hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        MulticastTransport(bind, **{"group": GROUP, **settings})  # type: ignore[arg-type]
