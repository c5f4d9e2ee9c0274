"""Corosync daemons of this machine's own: one a member, each in a network namespace, on a bridge between them.

A daemon speaks to its clients through sockets whose names are unique in a network namespace, and locks a file in /run, so that
several of them need namespaces of their own, and those need root. Everything lives as long as the processes that are started
here: the namespaces are held by sleeping processes, each with a /run of its own; nothing is written outside a directory of
ours; and the end kills each process by its id.
"""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from .processes import LIFE_SECONDS, BenchError, Crew

MODULE: Final = "plainchant_workbench.live.corosync_member"
TOOLS: Final = ("corosync", "ip", "mount", "nsenter", "sleep", "unshare")
START_SECONDS: Final = 20.0
PREFIX: Final = "10.77.0"
"""Addresses inside the namespaces, which nobody else sees."""


def obstacle() -> str | None:
    """Why Corosync cannot be measured here; None if it can."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"not found: {', '.join(missing)}"
    if ctypes.util.find_library("cpg") is None:
        return "its client library, libcpg, was not found"
    if os.geteuid() != 0:
        return "several daemons on one machine need network namespaces, and those need root"
    return None


def version() -> str:
    """What the daemon says of itself."""
    said = subprocess.run(["corosync", "-v"], capture_output=True, text=True, timeout=START_SECONDS, check=False).stdout
    found = re.search(r"version '([^']+)'", said)
    return found[1] if found else "unknown"


@contextmanager
def corosync(members: int, tasks: list[dict[str, Any]]) -> Iterator[Crew]:
    """Daemons, and a client process beside each."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plainchant-bench-")))
        asleep = ["unshare", "--net", "--mount", "sleep", str(LIFE_SECONDS)]
        namespaces = [stack.enter_context(_running(asleep)) for _ in range(members + 1)]
        for namespace in namespaces:
            _wait(lambda pid=namespace.pid: _link(pid) != _link(os.getpid()), "a namespace")  # type: ignore[misc]
        *places, hub = [namespace.pid for namespace in namespaces]
        _in(hub, "ip", "link", "add", "hub", "type", "bridge")
        _in(hub, "ip", "link", "set", "hub", "up")
        for number, place in enumerate(places):
            _in(place, "mount", "-t", "tmpfs", "tmpfs", "/run")
            _in(place, "ip", "link", "set", "lo", "up")
            _in(place, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", f"port{number}", "netns", str(hub))
            _in(place, "ip", "address", "add", f"{PREFIX}.{number + 1}/24", "dev", "eth0")
            _in(place, "ip", "link", "set", "eth0", "up")
            _in(hub, "ip", "link", "set", f"port{number}", "master", "hub", "up")
        for number, place in enumerate(places):
            file = directory / f"{number}.conf"
            (directory / f"state-{number}").mkdir()
            file.write_text(_configuration(members, directory / f"state-{number}"), encoding="utf-8")
            daemon = ["corosync", "-f", "-c", str(file)]
            log = stack.enter_context((directory / f"{number}.log").open("wb"))
            stack.enter_context(_running([*_within(place), *daemon], log))
        yield stack.enter_context(Crew(MODULE, tasks, within=[_within(place) for place in places]))


def _configuration(members: int, state: Path) -> str:
    nodes = "\n".join(
        f"    node {{\n        ring0_addr: {PREFIX}.{number + 1}\n        nodeid: {number + 1}\n        name: m{number}\n    }}"
        for number in range(members)
    )
    return f"""\
totem {{
    version: 2
    cluster_name: bench
    transport: knet
    crypto_cipher: none
    crypto_hash: none
}}
system {{
    state_dir: {state}
    allow_knet_handle_fallback: yes
}}
logging {{
    to_stderr: yes
    to_syslog: no
    to_logfile: no
}}
nodelist {{
{nodes}
}}
quorum {{
    provider: corosync_votequorum
}}
"""


def _within(pid: int) -> list[str]:
    return ["nsenter", "--target", str(pid), "--net", "--mount"]


def _in(pid: int, *command: str) -> None:
    done = subprocess.run([*_within(pid), *command], capture_output=True, text=True, timeout=START_SECONDS, check=False)
    if done.returncode:
        raise BenchError(f"`{' '.join(command)}` in a network namespace: {done.stderr.strip()}")


def _link(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        raise BenchError("no network namespace could be made: this system does not let us") from None


def _wait(until: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not until():
        if time.monotonic() > deadline:
            raise BenchError(f"{what} did not come up in {START_SECONDS:.0f} s")
        time.sleep(0.01)


@contextmanager
def _running(command: list[str], log: Any = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
