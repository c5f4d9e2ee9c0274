"""The rules that make ``dedos`` correct, one by one: tests and claims take them away to show what breaks.

Each is an erratum of the seed or one of its traps; ``docs/errata.md`` has the runs that show them.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """What the protocol does; the defaults are what we run."""

    # within a node
    reserve: bool = True
    """Elements are kept for messages that have a number."""
    restore_flags: bool = True
    """Nobody stores anything new in a box before all receivers have restored what they know of (Rflag, Pflag)."""
    restore_buffers: bool = True
    """Receivers keep what they have read until everybody has read it, and restore it after a crash of the box."""
    own_flag: bool = True
    """Who restores finds what others have restored, and sets its own flag there (erratum 8)."""
    all_boxes: bool = True
    """Senders store into all boxes."""
    idle_recovery: bool = True
    """Receivers notice crashes of boxes whether or not the application reads."""
    delete_everywhere: bool = True
    """Who is gone is deleted from all boxes (erratum 9)."""
    leave_restores: bool = True
    """Who leaves restores what it keeps into the spare boxes first."""
    drop_unnumbered: bool = True
    """Messages without a number of a sender that has crashed are removed (erratum 12)."""
    senders_keep: bool = True
    """Within a node senders keep what they have sent until everybody has read it."""
    flag_of_read: bool = True
    """Within a node who restores sets its flag on what it has read, not on what it has only sent (appendix C)."""
    numbers_go_on: bool = True
    """StartRecovery raises Nextseqnr: without it numbers begin anew if there is nothing to restore (appendix C)."""
    skip_when_restored: bool = True
    """Within a node a receiver skips a number only when all P-flags are set."""
    joiner_keeps: bool = True
    """Within a node who joins keeps what is in the mailbox, like those who have read it: it will keep later messages too."""
    spares_unset: bool = True
    """Who joins lists itself in spare boxes without its P-flag (erratum 10)."""
    leave_ascending: bool = True
    """Within a node who leaves restores into spare boxes in the order in which they become active."""
    wait_for_all: bool = True
    """An element is removed when the receivers of all nodes have read it, not only the local ones."""
    contiguous: bool = True
    """A node acknowledges up to the first number that a receiver lacks (erratum 11)."""
    # between nodes
    duplicates: bool = True
    """The distributor numbers a message once (erratum 1)."""
    fifo: bool = True
    """The distributor numbers the messages of a sender in the order in which it sent them."""
    maximum: bool = True
    """An acknowledgement that comes late does not take back a later one (erratum 5)."""
    gaps: bool = True
    """After recovery a relay asks for every number that is missing, not only for those after the highest."""
    buffering: bool = True
    """What arrives early is kept (4.2)."""
    full_is_asked_again: bool = True
    """A message for which there was no room is stored when there is (erratum 3)."""
    senderless_acks: bool = True
    """A node without receivers acknowledges what it has stored (erratum 11)."""
    tail: bool = True
    """The distributor says its last number again until everybody has it."""
    load_unread: bool = True
    """A new distributor loads what not every receiver has read, not only what not every mailbox has."""
    wait_for_answers: bool = True
    """A new distributor waits for all nodes that are alive (erratum 14)."""
    epochs: bool = True
    """A node that has promised an epoch listens to no earlier one."""
    fencing: bool = True
    """Who is not in the configuration of the latest epoch halts."""
    only_up_to_date: bool = True
    """In the synchronisation phase only UPTODATE marks a node as up to date (erratum 13)."""
    rebuild_order: bool = True
    """A new distributor knows how far each sender's messages are numbered."""
    late_sender: bool = True
    """A message of a sender that has crashed meanwhile is stored like one from elsewhere (erratum 12)."""


RULES = Rules()
