"""Messages between a supervisor and its workers: typed JSON lines.

The first line that a worker reads is its :class:`Task`; every further line is a command. A worker writes reports. A command with
an ``id`` is answered by a report with the same ``id``; the others are carried out in order and not answered.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from ...live.transport import Address
from ...scenario.model import Fault, Network, Workload


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a worker, and what it does."""

    place: str
    incarnation: int
    peers: dict[str, Address]
    protocol: str
    parameters: dict[str, Any]  # parameters that are given; the protocol fits the others to where it runs
    packet: int
    groups: dict[str, tuple[str, ...]]  # all groups of the scenario and their first members
    enter: tuple[str, ...]  # groups that this process enters at once
    forms: bool  # whether it is a first member, which forms the groups; otherwise it joins them
    network: Network
    faults: tuple[Fault, ...] = ()  # faults of the network at this time, with the time that each has left
    calm: bool = False
    workload: tuple[Workload, ...] = ()
    duration: int  # when senders stop, ns after the beginning
    begin: int | None = None  # when the scenario began, ns of the monotonic clock; None: :class:`Begin` will say
    clock_offset: int = 0
    seed: str
    trace: str
    run: str
    note: dict[str, Any] | None = None  # the detail of the fault that started this process
    memory: str = ""  # the name of the shared memory, of each node, where the protocol has it
    backup: dict[str, Address] = {}  # the addresses of all places on the second network, if there is one
    operations: bool = False  # whether every operation on it is written down
    key: str = ""  # the group's key, where packets are sealed
    insecure: bool = False  # whether the network was made for this run, and no other process is on it


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """All members are in their groups: the scenario's time 0 is at ``start``, ns of the monotonic clock."""

    start: int


class Note(msgspec.Struct, frozen=True, tag="note"):
    """Write a ``fault`` row, and answer when it is written."""

    id: int
    detail: dict[str, Any]


class Spare(msgspec.Struct, frozen=True, tag="spare"):
    """Take back a crash that has not happened yet."""

    id: int


class Spoil(msgspec.Struct, frozen=True, tag="spoil"):
    """A fault of the network begins, or the network heals; ``recorded``: write its row, too."""

    fault: Fault
    recorded: bool = False


class Inflict(msgspec.Struct, frozen=True, tag="inflict"):
    """A fault happens inside the process: record it, if its kind has a row, and carry it out."""

    fault: Fault


class Enter(msgspec.Struct, frozen=True, tag="enter"):
    """Join these groups, those of them that the process is not in, and record the fault for each."""

    groups: tuple[str, ...]
    fault: Fault


class Quieten(msgspec.Struct, frozen=True, tag="quieten"):
    """The time of senders and faults is over."""


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Report the status."""

    id: int


class Where(msgspec.Struct, frozen=True, tag="where"):
    """Print the stack of each task to standard error: the process seems to hang."""


class End(msgspec.Struct, frozen=True, tag="end"):
    """Record the end and exit."""

    drained: bool


Command: TypeAlias = Begin | Note | Spare | Spoil | Inflict | Enter | Quieten | Ask | Where | End


class Entered(msgspec.Struct, frozen=True, tag="entered"):
    """The process is in a group, under this name; these are the parameters that the protocol works with."""

    group: str
    name: str
    parameters: dict[str, Any]


class Serving(msgspec.Struct, frozen=True, tag="serving"):
    """The process is in no group and takes part, under this name and with these parameters."""

    name: str
    parameters: dict[str, Any]


class Done(msgspec.Struct, frozen=True, tag="done"):
    """A command has been carried out."""

    id: int


class Spared(msgspec.Struct, frozen=True, tag="spared"):
    """No crash awaits the process any more: one that had not happened yet was taken back in time."""


class Status(msgspec.Struct, frozen=True, tag="status"):
    """What the process waits for (None: nothing), and what was done on purpose to packets so far."""

    id: int
    waiting: str | None
    lost: int
    duplicated: int
    corrupted: int


class Over(msgspec.Struct, frozen=True, tag="over"):
    """The process is about to exit: it left its last group, was halted by the protocol, never got in, or was told to end."""

    state: Literal["left", "halted", "outside", "ended"]
    reason: str = ""


Report: TypeAlias = Entered | Serving | Done | Spared | Status | Over

encode = msgspec.json.Encoder().encode
decode_task = msgspec.json.Decoder(Task).decode
decode_command = msgspec.json.Decoder(Command).decode
decode_report = msgspec.json.Decoder(Report).decode


def line(message: Task | Command | Report) -> bytes:
    """A message as it is written.

    >>> line(Begin(5))
    b'{"type":"begin","start":5}\\n'
    """
    return encode(message) + b"\n"
