"""Errors about groups. Each carries a ``Reason``: a code for programs, a text for people."""

from __future__ import annotations

from ..core.model import PlainchantError, Reason


class GroupError(PlainchantError):
    """An operation on a group failed; ``reason`` says why, for programs and for people."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class Refused(GroupError):
    """A message was not accepted: no process will ever deliver it."""


class Halted(GroupError):
    """The protocol stopped this process: it was excluded, is in a minority, ... Join again to go on."""


class NotFormed(GroupError):
    """A proposed group was not formed: no process agreed, or none answered."""


class Rejected(GroupError):
    """The requested deadlines cannot be guaranteed beside those already admitted. ``reason`` says what is too much, and
    ``reason.evidence`` has the nearest deadline that would be accepted (``nearest_ns``), if there is one. Nothing was sent."""


class JoinTimeout(GroupError):
    """The group did not admit this process in time."""


class LeaveTimeout(GroupError):
    """The group did not release this process in time: accepted messages may not have been sent."""


class Lost(GroupError):
    """A receipt's outcome will never be known: the process left or was stopped, or this group does not report it."""
