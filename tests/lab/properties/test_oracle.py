"""The definitions once more, word by word and by brute force, against the verifier, on random nonsense.

Most random histories break most properties, often in ways nobody would think of: unsent messages, effects before
causes, views that come twice. The two must agree on every one of them.
"""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from plainchant.lab.properties import verify

from ...trace.build import trace

Row: TypeAlias = dict[str, Any]
PROCESSES = ("a", "b", "c")
RUNS = 150


def nonsense(random: Random, groups: tuple[str, ...], *, views: bool) -> dict[str, str]:
    def view(me: str) -> str:
        others = [name for name in PROCESSES if name != me and random.random() < 0.8]
        return f"view {random.randint(1, 2)} {','.join(sorted([me, *others]))}"

    histories = {}
    for me in PROCESSES:
        events = []
        if views and random.random() < 0.9:
            events += [f"{view(me)} group={group}" for group in groups]
        for _ in range(random.randint(1, 7)):
            event = random.choice(["send", "deliver", "deliver", "deliver", view(me) if views else "send"])
            if event == "deliver":
                event = f"deliver {random.choice(PROCESSES)} {random.randint(1, 2)}"
            events.append(f"{event} group={random.choice(groups)}")
        histories[me] = " | ".join([*events, random.choice(["end", "end", "crash", "drop a 1"])])
    return histories


class Oracle:
    """Rows, and relations between them computed by search."""

    def __init__(self, table: pa.Table) -> None:
        self.rows = table.to_pylist()
        self.groups = sorted({row["group"] for row in self.rows if row["group"]})
        self.sends = [row for row in self.rows if row["kind"] == "send"]
        self.delivers: list[Row] = []
        for row in self.rows:
            seen = [(other["process"], message(other)) for other in self.delivers]
            if row["kind"] == "deliver" and (row["process"], message(row)) not in seen:
                self.delivers.append(row)
        sent = [message(row) for row in self.sends]
        cut = [p for p in PROCESSES if not any(r["process"] == p and r["kind"] in ("end", "crash") for r in self.rows)]
        unrecorded = {message(row) for row in self.delivers if message(row) not in sent and row["sender"] in cut}
        # The sends that a cut history lacks: after all that it has, and among themselves in order a group.
        self.unrecorded: list[Row] = [
            {"kind": "send", "process": (group, sender), "index": seq, "group": group, "sender": sender, "seq": seq}
            for group, sender, seq in sorted(unrecorded)
        ]

    def delivery(self, process: str, wanted: tuple[str, str, int]) -> Row | None:
        return next((r for r in self.delivers if r["process"] == process and message(r) == wanted), None)

    def views(self, process: str, group: str) -> list[tuple[int, tuple[int, frozenset[str]]]]:
        return [
            (row["index"], (row["view"], frozenset(row["members"])))
            for row in self.rows
            if row["kind"] == "view" and row["process"] == process and row["group"] == group
        ]

    def in_force(self, row: Row) -> tuple[int, frozenset[str]] | None:
        before = [view for index, view in self.views(row["process"], row["group"]) if index < row["index"]]
        return before[-1] if before else None

    def installed(self, process: str, group: str, view: object) -> int | None:
        return next((index for index, other in self.views(process, group) if other == view), None)

    def past(self, event: Row, group: str | None) -> list[Row]:
        """Everything that happened before an event, through one group's events or through all."""
        events = [row for row in [*self.sends, *self.unrecorded, *self.delivers] if group is None or row["group"] == group]
        found: list[Row] = []
        frontier = [event]
        while frontier:
            later = frontier.pop()
            for row in events:
                local = row["process"] == later["process"] and row["index"] < later["index"]
                local = local or (later in self.unrecorded and row["process"] == later["sender"])
                remote = later["kind"] == "deliver" and row["kind"] == "send" and message(row) == message(later)
                if (local or remote) and row not in found:
                    found.append(row)
                    frontier.append(row)
        return found

    def owes(self, q: str, wanted: tuple[str, str, int], at: Row | None) -> bool:
        group, sender, _ = wanted
        if not any(row["kind"] == "view" and row["group"] == group for row in self.rows):
            return any(row["process"] == q and row["group"] == group for row in self.delivers)
        send = next((row for row in self.sends if message(row) == wanted), None)
        if send is not None and self.in_force(send) is not None:
            return self.together(q, send, at)
        stand_ins = [row for row in self.delivers if message(row) == wanted]
        return any(self.together(q, row, at) and not self.lost(q, row, sender, at) for row in stand_ins)

    def together(self, q: str, row: Row, at: Row | None) -> bool:
        other, group = row["process"], row["group"]
        since = self.installed(q, group, self.in_force(row))
        if since is None or (at is not None and since > at["index"]):
            return False
        if other == q:
            return True
        mine = [i for i, (_, m) in self.views(q, group) if i > since and other not in m and (not at or i <= at["index"])]
        known = [e["index"] for e in self.past(at, None) if e["process"] == other and e["kind"] == "send"] if at else []
        common = [view for index, view in self.views(q, group) if at and since < index <= at["index"]]
        known += [there for view in common if (there := self.installed(other, group, view)) is not None]
        theirs = [
            index
            for index, (_, members) in self.views(other, group)
            if index > row["index"] and q not in members and (at is None or any(index < k for k in known))
        ]
        return not mine and not theirs

    def lost(self, q: str, row: Row, sender: str, at: Row | None) -> bool:
        view = self.in_force(row)
        since = self.installed(q, row["group"], view)
        assert view is not None
        assert since is not None
        return sender in view[1] and any(
            index > since and sender not in members and (at is None or index <= at["index"])
            for index, (_, members) in self.views(q, row["group"])
        )

    def crashed(self, process: str) -> bool:
        return not any(row["kind"] == "end" for row in self.rows if row["process"] == process)

    # --- properties: whether they hold -------------------------------------------------------------------------------

    def fifo(self) -> bool:
        for later in self.delivers:
            group, sender, last = message(later)
            for seq in range(1, last):
                mine = self.delivery(later["process"], (group, sender, seq))
                if mine is not None and mine["index"] > later["index"]:
                    return False
                if mine is None and self.owes(later["process"], (group, sender, seq), later):
                    return False
        return True

    def causal(self) -> bool:
        for later in self.delivers:
            q = later["process"]
            effect = next((row for row in [*self.sends, *self.unrecorded] if message(row) == message(later)), None)
            if effect is None:
                continue
            in_group = [message(row) for row in self.past(effect, later["group"]) if row["kind"] == "send"]
            for cause in {message(row) for row in self.past(effect, None) if row["kind"] == "send"}:
                mine = self.delivery(q, cause)
                if mine is not None and mine["index"] > later["index"]:
                    return False
                if mine is None and cause in in_group and cause[0] == later["group"] and self.owes(q, cause, later):
                    return False
                if mine is None and not self.crashed(q) and self.owes(q, cause, None):
                    return False
        return True

    def orders_agree(self, *, crashed: bool, across: bool) -> bool:
        for p, q in combinations([p for p in PROCESSES if crashed or not self.crashed(p)], 2):
            common = [message(row) for row in self.delivers if row["process"] == p and self.delivery(q, message(row))]
            for first, second in combinations(common, 2):
                there = self.delivery(q, first), self.delivery(q, second)
                assert there[0] is not None
                assert there[1] is not None
                if (across or first[0] == second[0]) and there[0]["index"] > there[1]["index"]:
                    return False
        return True

    def identical(self) -> bool:
        return self.orders_agree(crashed=False, across=False)

    def total(self) -> bool:
        return self.orders_agree(crashed=True, across=True) and self.causal()

    def acyclic(self) -> bool:
        after = {
            message(row): {
                message(other)
                for first in self.delivers
                if message(first) == message(row)
                for other in self.delivers
                if other["process"] == first["process"] and other["index"] > first["index"]
            }
            for row in self.delivers
        }
        for _ in after:
            after = {m: reached.union(*(after[other] for other in reached)) for m, reached in after.items()}
        return not any(m in reached for m, reached in after.items())

    def agreement(self) -> bool:
        return self.agree([p for p in PROCESSES if not self.crashed(p)])

    def uniform(self) -> bool:
        return self.agree(list(PROCESSES)) and self.orders_agree(crashed=True, across=False)

    def agree(self, deliverers: list[str]) -> bool:
        for row in self.delivers:
            p, group, view = row["process"], row["group"], self.in_force(row)
            for q in PROCESSES:
                if p not in deliverers or p == q or self.crashed(q) or self.delivery(q, message(row)):
                    continue
                if not any(other["kind"] == "view" and other["group"] == group for other in self.rows):
                    if self.owes(q, message(row), None):
                        return False
                    continue
                start_p, start_q = self.installed(p, group, view), self.installed(q, group, view)
                if view is None or start_p is None or start_q is None:
                    continue
                by_p = any(index > start_p and q not in members for index, (_, members) in self.views(p, group))
                by_q = any(index > start_q and p not in members for index, (_, members) in self.views(q, group))
                if not (by_p or (by_q and not self.crashed(p))):
                    return False
        return True


def message(row: Row) -> tuple[str, str, int]:
    return row["group"], row["sender"], row["seq"]


@pytest.mark.parametrize("views", [True, False], ids=["views", "no views"])
@pytest.mark.parametrize("groups", [("g",), ("g", "h")], ids=["one group", "two groups"])
def test_verifier_and_definitions_agree(groups: tuple[str, ...], views: bool) -> None:
    names = ("fifo", "causal", "identical", "total", "acyclic", "agreement", "uniform")
    held = dict.fromkeys(names, 0)
    for seed in range(RUNS):
        histories = nonsense(Random(f"{seed}/{groups}/{views}"), groups, views=views)
        table = trace(histories)
        found, oracle = verify(table, names), Oracle(table)
        for name in names:
            holds = getattr(oracle, name)()
            held[name] += holds
            assert (found.properties[name].verdict != "violated") == holds, (seed, name, histories)
    assert all(0 < count < RUNS for count in held.values()), held
