"""Checks of the group's key: there where it is needed, whole, and its owner's alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ..live.addresses import format_address, is_loopback, parse_address
from ..live.keys import ENVIRONMENT, ENVIRONMENT_FILE
from . import finding
from .finding import Finding, Subject
from .machine import Machine
from .resources import private_file

ok = partial(finding.ok, check="keys")
warning = partial(finding.warning, check="keys")
problem = partial(finding.problem, check="keys")
NEW = 'plainchant key new group.key; then key = "group.key" in the configuration of all members'


def keys(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """The key that a configuration or the environment names; and whether there has to be one."""
    config = subject.config
    text, named = machine.environ.get(ENVIRONMENT, ""), machine.environ.get(ENVIRONMENT_FILE, "")
    path = (config.key if config is not None else "") or named
    if path:
        yield from _file(machine, Path(path))
    elif text:
        yield ok(f"the group's key is in {ENVIRONMENT}: whoever sees this process's environment has it")
    if text and named and not (config is not None and config.key):
        yield problem(f"both {ENVIRONMENT} and {ENVIRONMENT_FILE} are set", f"unset {ENVIRONMENT}, or the other one")
    if config is None or path or text:
        return
    reached = _reached(machine, subject)
    if not reached:
        yield ok("no key, and nobody but this machine reaches the peers that run here")
    elif config.insecure:
        yield warning(
            f"no key, and other machines reach {reached}: they can read, change and forge all messages",
            f"{NEW}, and take insecure out",
        )
    else:
        yield problem(f"no key, and other machines reach {reached}: a node does not start like that", NEW)


def _file(machine: Machine, path: Path) -> Iterator[Finding]:
    found = list(private_file(machine, "keys", path, "the group's key"))
    yield from found
    if all(each.level == "ok" for each in found):
        number = machine.keyring(path)
        if isinstance(number, str):
            yield problem(number, f"copy the file of another member, or: plainchant key new {path}")
        else:
            yield ok(f"it has {number} keys; the first one seals" if number > 1 else "it has one key")


def _reached(machine: Machine, subject: Subject) -> str:
    """The addresses of members that run here and that other machines reach."""
    assert subject.config is not None
    found = []
    for addresses in (subject.config.peers, subject.config.backup):
        for name, text in addresses.items():
            host, port = parse_address(text)
            number, why = machine.resolve(host)
            mine = name == subject.me if subject.me else not why and machine.is_here((number, port))
            if mine and not why and not is_loopback((number, port)):
                found.append(f"{name} at {format_address((number, port))}")
    return ", ".join(found)
