"""The paper's invariants (3.6.2) and lemmas (appendices B and C), as questions to a mailbox and to the processes that use it.

Tests ask them inside the simulation, between two steps. ``copy`` is the active mailbox of a node; receivers that are given are
alive and have seen the results of their steps. Each function gives the sentences that are not true: none, if all is well. The
lemmas of appendix C are those of appendix B, and B.1 is the third invariant of 3.6.2: one function each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ...core.memory import Connection, Copy, Entry
from ...core.model import ProcessId
from .box import MESSAGES, Element, numbered
from .intra_steps import everybody_is_present


class Receiver(Protocol):
    """A process that reads from a mailbox, as both protocols have it."""

    last: int
    kept: dict[int, Element]


Receivers = Mapping[ProcessId, Receiver]


def flags_in_order(copy: Copy, receivers: Receivers) -> list[str]:
    """B.1, C.1, C.5, and 3.6.2: who has not read a message has not read a later one."""
    wrong: list[str] = []
    for process, mask, elements in _listed(copy, receivers):
        unread = next((entry.stamp for entry in elements if not entry.done & mask), None)
        later = [entry.stamp for entry in elements if unread is not None and entry.stamp > unread and entry.done & mask]
        wrong += [f"{process} has its flag on {stamp} and not on {unread}" for stamp in later]
    return wrong


def flags_mean_read(copy: Copy, receivers: Receivers) -> list[str]:
    """3.6.2: who has its flag on a message has read it."""
    return [
        f"{process} has its flag on {entry.stamp} and has read up to {receivers[process].last}"
        for process, mask, elements in _listed(copy, receivers)
        for entry in elements
        if entry.done & mask and entry.stamp > receivers[process].last
    ]


def removed_is_read(copy: Copy, receivers: Receivers) -> list[str]:
    """B.2, C.2, C.6: what is removed has been read by all; who came later begins after it."""
    oldest = copy.header().oldest
    wrong: list[str] = []
    for process, receiver in sorted(receivers.items()):
        _, connection = _connection(copy, process)
        if connection is not None and connection.entry and oldest > max(connection.entry, receiver.last + 1):
            wrong.append(f"everything before {oldest} is removed, and {process} has read up to {receiver.last}")
    return wrong


def read_is_kept(copy: Copy, receivers: Receivers) -> list[str]:
    """3.6.2: what a receiver has read and not everybody has, it keeps."""
    oldest = copy.header().oldest
    return [
        f"{process} has read {entry.stamp}, which not everybody has, and does not keep it"
        for process, mask, elements in _listed(copy, receivers)
        for entry in elements
        if entry.done & mask and entry.stamp >= oldest and entry.stamp not in receivers[process].kept
    ]


def kept_is_there(copy: Copy, receivers: Receivers) -> list[str]:
    """C.4: outside a recovery, what anybody keeps that not everybody has read is in the mailbox, and it is the same message."""
    if not everybody_is_present(copy):
        return []
    oldest, there = copy.header().oldest, numbered(copy)
    wrong: list[str] = []
    for process, receiver in sorted(receivers.items()):
        for number, element in sorted(receiver.kept.items()):
            if number < oldest:
                continue
            found = there.get(number)
            if found is None:
                wrong.append(f"{process} keeps {number}, which is not in the mailbox")
            elif (found[1].sender, found[1].number, found[1].kind) != (element.sender, element.number, element.kind):
                wrong.append(f"{process} keeps another message as {number} than the mailbox")
    return wrong


def numbers_go_up(copy: Copy, receivers: Receivers) -> list[str]:
    """The next number is higher than all that are in use."""
    if not everybody_is_present(copy):
        return []
    next_number = copy.header().next
    wrong = [f"{number} is there" for number in numbered(copy) if number >= next_number]
    ahead = [(process, receiver.last) for process, receiver in sorted(receivers.items()) if receiver.last >= next_number]
    wrong += [f"{process} has read up to {last}" for process, last in ahead]
    return [f"the next number is {next_number}, and {each}" for each in wrong]


def consecutive(copy: Copy) -> list[str]:
    """3.6.2, between nodes: outside a recovery the numbers in a mailbox have no gap."""
    numbers = sorted(numbered(copy))
    present = all(connection.present for _, connection in copy.connections() if connection.entry)
    if not present or not numbers or numbers[-1] - numbers[0] == len(numbers) - 1:
        return []
    missing = sorted(set(range(numbers[0], numbers[-1])) - set(numbers))
    return [f"{missing} are missing between {numbers[0]} and {numbers[-1]}"]


def sent_is_there(copy: Copy, stored: Mapping[ProcessId, int]) -> list[str]:
    """B.3 and 3.6.2, between nodes: what a sender has stored, up to its own number, stays until all receivers have read it."""
    wrong: list[str] = []
    for sender, up_to in sorted(stored.items()):
        _, connection = _connection(copy, sender)
        if connection is None:
            continue
        there = {entry.number for _, entry in copy.entries() if entry.sender == sender and entry.kind == MESSAGES}
        lost = [number for number in range(connection.last + 1, up_to + 1) if number not in there]
        if lost:
            wrong.append(f"messages {lost} of {sender} are not in its mailbox, and not everybody has read them")
    return wrong


def history_consecutive(history: Iterable[int], next_number: int) -> list[str]:
    """3.6.2: the numbers in a distributor's history have no gap and end before the next one, as soon as it knows that."""
    numbers = sorted(history)
    if not numbers or numbers == list(range(next_number - len(numbers), next_number)):
        return []
    return [f"the history holds {numbers}, and the next number is {next_number}"]


def acknowledged_is_read(acknowledged: int, receivers: Receivers) -> list[str]:
    """B.2 and 3.6.2: what a node has acknowledged was read by all its receivers, and what is removed, or all nodes have
    acknowledged, by all; who came later begins after it."""
    return [
        f"everything up to {acknowledged} is acknowledged, and {process} has read up to {receiver.last}"
        for process, receiver in sorted(receivers.items())
        if acknowledged > receiver.last
    ]


def _listed(copy: Copy, receivers: Receivers) -> Iterable[tuple[ProcessId, int, list[Entry]]]:
    """Each of these receivers that is in the list: its flag, and the elements in order that have one for it."""
    elements = [entry for _, (_, entry) in sorted(numbered(copy).items())]
    for process in sorted(receivers):
        place, connection = _connection(copy, process)
        if connection is not None and connection.entry:
            yield process, 1 << place, [entry for entry in elements if entry.listed & 1 << place]


def _connection(copy: Copy, process: ProcessId) -> tuple[int, Connection | None]:
    return next(((place, found) for place, found in copy.connections() if found.process == process), (-1, None))


BETWEEN = (flags_in_order, flags_mean_read, removed_is_read, read_is_kept)  # Holds in each mailbox, also between nodes
WITHIN = (*BETWEEN, kept_is_there, numbers_go_up)  # Holds within a node
