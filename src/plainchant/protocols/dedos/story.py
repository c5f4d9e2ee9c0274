"""What is told about runs of ``dedos``: entries into a group, and its operations on shared memory."""

from __future__ import annotations

from typing import ClassVar

from ..story import Event, Story


class DedosStory(Story):
    """The story of a run of ``dedos``."""

    operations: ClassVar = {
        "read": ("read", "read a message"),
        "store": ("write", "store a message"),
        "restore": ("decide", "restore a message"),
        "present": ("flag", "say that all is restored"),
        "purge": ("finish", "remove what all have read"),
        "delete": ("list", "delete a member"),
        "look": ("look", "look for messages"),
        "list": ("list", "enter the list of receivers"),
    }

    @staticmethod
    def message_act(event: Event) -> str | None:
        if event.kind == "state" and event.detail.get("state") == "entered":
            return f"is entered as a receiver of {event.group}"
        return None
