"""The public surface: what applications may call. An addition is deliberate, so it is added here as well, and in docs/live.md."""

from __future__ import annotations

from pathlib import Path

import pytest

import plainchant
from plainchant import Group, Guaranteed, Receipt, Stream
from plainchant.group import Membership

LIVE = Path(__file__).parents[2] / "docs" / "live.md"

GROUP = {
    "what it is": ("changes", "formed", "guarantees", "is_over", "me", "members", "name", "node", "view"),
    "sending": ("admission", "send", "send_many", "stream", "try_send"),
    "reading": ("batches", "stop_listening"),
    "the end": ("close", "ended", "finish", "leave", "rename"),
    "diagnosis": ("is_traced", "metrics", "note", "waiting"),
}
HOST_CALLS = {"add", "admitted", "deliver", "halted", "left", "rejected", "renamed", "stable", "took"}
"""What hosts call when the protocol did something."""
PACKAGE = {
    "Event",
    "Group",
    "GroupError",
    "Guaranteed",
    "Guarantees",
    "Halted",
    "Insecure",
    "Invitation",
    "JoinTimeout",
    "Key",
    "Keyring",
    "LeaveTimeout",
    "Lost",
    "Message",
    "Node",
    "NotFormed",
    "PlainchantError",
    "Reason",
    "Receipt",
    "Refused",
    "Rejected",
    "State",
    "StateRequest",
    "Stream",
    "UsageError",
    "View",
    "join",
    "merged",
    "sim",
}


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_a_group_has_what_applications_call_and_nothing_else() -> None:
    assert public(Group) == {name for names in GROUP.values() for name in names}


def test_what_hosts_call_is_on_another_object() -> None:
    assert public(Membership) >= HOST_CALLS
    assert public(Group).isdisjoint(HOST_CALLS)


def test_what_a_group_returns_has_a_small_surface_too() -> None:
    assert public(Receipt) == {"delivered", "is_delivered", "seq", "stable"}
    assert public(Guaranteed) == {"deadline", "name", "period", "release", "send", "size"}
    assert public(Stream) == {"batches"}


def test_the_package_exports_these_names() -> None:
    assert set(plainchant.__all__) == PACKAGE
    assert all(getattr(plainchant, name) is not None for name in PACKAGE)


@pytest.mark.parametrize("name", sorted(name for names in GROUP.values() for name in names))
def test_the_page_on_live_programs_names_it(name: str) -> None:
    assert f"group.{name}" in LIVE.read_text(encoding="utf-8")
