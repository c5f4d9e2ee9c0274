"""Why newtop's deliveries wait: blocks, at the sender as well."""

from __future__ import annotations

from typing import Any

import pytest

from plainchant.core.model import MS
from plainchant.lab.explain.explainer import Explainer, Explanation
from plainchant.protocols.newtop.delivery import RANK_BITS
from plainchant.protocols.newtop.delivery import RANK_BITS as ENGINE_RANK_BITS
from plainchant.trace import TraceBuffer

GROUPS = {"g": ["p", "q"], "h": ["p", "r"]}
EMITTER = 7


class Script:
    """Two groups with p in both; g/p/1 ... g/p/5 are delivered at once, g/p/6 (block 6) late at p."""

    def __init__(self, **parameters: Any) -> None:
        self._trace = TraceBuffer()
        self.ranked = parameters.get("order", "total") == "total"
        for name in "pqr":
            start = {"version": 1, "protocol": "newtop", "parameters": {"order": "total", "orders": {}, **parameters}}
            self.add(0, name, "start", None, detail=start)
            for group, members in GROUPS.items():
                if name in members:
                    self.add(0, name, "view", group, members=members, view=1)
        for seq in range(1, 7):
            self.add(seq, "p", "send", "g", seq)
            self.null(seq, "p", "h", seq)
            self.null(seq, "q", "g", seq)
            if seq < 6:
                self.null(seq, "r", "h", seq)
                self.deliver(seq + 0.5, "p", seq)
            self.deliver(seq + 0.5, "q", seq)

    def add(
        self,
        when: float,
        at: str,
        kind: str,
        group: str | None,
        seq: int | None = None,
        *,
        view: int | None = 1,
        rank: int | None = None,
        **extra: Any,
    ) -> None:
        sender = "p" if seq is not None else None
        view = None if group is None else view
        row = (kind, int(when * MS), int(when * MS), group, view, sender, seq, None, rank, None, None, extra or None)
        self._trace.history("r0", at).rows.append(row)

    def null(self, when: float, at: str, group: str, block: int) -> None:
        self.add(when, at, "null", group, detail={"block": block, "why": "silence"})

    def deliver(self, when: float, at: str, seq: int) -> None:
        self.add(when, at, "deliver", "g", seq, rank=(seq << RANK_BITS) + EMITTER if self.ranked else None)

    def story(self, *, is_whole: bool = True) -> Explanation:
        return Explainer(self._trace.table(), is_whole=is_whole).message(("g", "p", 6))


def late(story: Explanation) -> str:
    """Why p delivers late."""
    (because,) = [step.because for step in story.steps if step.what.startswith("p delivers")]
    return because or ""


def test_ranks_are_read_as_the_engine_writes_them() -> None:
    assert RANK_BITS == ENGINE_RANK_BITS


def test_the_sender_waits_for_its_block_and_for_whom() -> None:
    script = Script()
    script.null(19, "r", "h", 8)
    script.deliver(20, "p", 6)
    story = script.story()
    assert late(story) == (
        "its block 6 had to be complete in every group of p (g and h), and the last to send for it was r (a null message in h at "
        "19.000 ms)"
    )
    assert "q delivers it, 500 us after its send, in block 6" in [step.what for step in story.steps]


def test_what_was_lost_and_sent_again_is_named() -> None:
    script = Script()
    script.null(6, "r", "h", 6)
    script.add(15, "p", "ask", "h", detail={"process": "r", "asked": "r"})
    script.add(17, "r", "retransmit", "h", detail={"source": "r", "to": "p"})
    script.add(18, "q", "retransmit", "g", detail={"source": "q", "to": "p"})
    script.deliver(20, "p", 6)
    assert late(script.story()).endswith(
        "; it probably waited for something of r in h, missing here: p asked at 15.000 ms, and r sent it again at 17.000 ms"
    )
    assert "missing here" not in late(script.story(is_whole=False)), "rows of the other group may be left out"


def test_what_was_sent_again_before_somebody_sent_at_all_is_not_what_was_waited_for() -> None:
    script = Script()
    script.add(8, "p", "ask", "g", detail={"process": "q", "asked": "q"})
    script.add(9, "q", "retransmit", "g", detail={"source": "q", "to": "p"})
    script.null(19, "r", "h", 6)
    script.deliver(20, "p", 6)
    assert late(script.story()).endswith("the last to send for it was r (a null message in h at 19.000 ms)")


@pytest.mark.parametrize("other", [{"orders": {"h": "fast"}}, {"sequencers": {"h": "p"}}])
def test_nobody_is_called_the_last_where_the_rows_cannot_tell(other: dict[str, Any]) -> None:
    script = Script(**other)
    script.null(19, "r", "h", 6)
    script.deliver(20, "p", 6)
    assert late(script.story()) == "its block 6 had to be complete in every group of p (g and h)"


def test_nobody_is_called_the_last_if_rows_are_left_out_or_missing() -> None:
    script = Script()
    script.deliver(20, "p", 6)
    assert late(script.story()) == "its block 6 had to be complete in every group of p (g and h)"
    script.null(19, "r", "h", 6)
    assert late(script.story(is_whole=False)) == "its block 6 had to be complete in every group of p (g and h)"


def test_slow_order_waits_for_the_blocks_before() -> None:
    script = Script(order="slow")
    script.null(19, "r", "h", 6)
    script.deliver(20, "p", 6)
    story = script.story()
    assert late(story) == "in slow order all blocks before its own had to be complete in every group of p (g and h)"


def test_the_sender_never_waits_for_its_own_packet() -> None:
    script = Script(order="fast")
    script.deliver(20, "p", 6)
    assert late(script.story()) == (
        "it came 13.5 ms after q's delivery, though p itself sent it: the trace does not say what it waited for"
    )
