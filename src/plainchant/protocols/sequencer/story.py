"""What is told about runs of ``sequencer``: which sequencer a member follows, and in which epoch."""

from __future__ import annotations

from ..story import Event, Story


class SequencerStory(Story):
    """The story of a run of ``sequencer``."""

    @classmethod
    def sentence(cls, event: Event) -> str | None:
        detail = event.detail
        if event.kind == "state" and "sequencer" in detail:
            return f"{event.process} follows {detail['sequencer']} in epoch {detail.get('epoch')}"
        if event.kind == "state" and "superseded_by" in detail:
            return f"{event.process} gives up its office of epoch {detail.get('epoch')}"
        return None
