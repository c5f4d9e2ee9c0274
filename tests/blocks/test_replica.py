"""The replica: outcomes, joiners, errors, parts that come together. On virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar

import pytest

from plainchant import Group, Message, UsageError, View, sim
from plainchant.blocks import Block, Command, CommandRefused, Counter, NoOutcome, OutcomeUnknown, Part, Replica, ReplicaOver
from plainchant.blocks.merging import Merge, merge_in, merge_out, parts_of

Main = Callable[[Group], Coroutine[Any, Any, Any]]
APART = {"kind": "partition", "at": "200ms", "length": "1500ms", "parts": [["p1", "p2"], ["p3", "p4", "p5"]]}


class Log(Block):
    """Keeps what it is told, in order, and what views it sees."""

    kind: ClassVar[str] = "log"

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Any] = []
        self.views: list[list[str]] = []

    def apply(self, command: Command) -> int:
        if command.body == "no":
            raise CommandRefused("it is not to be")
        if command.body == "fail":
            raise ZeroDivisionError("a defect of the block")
        self.lines.append([command.sender, command.number, command.body])
        return len(self.lines)

    def changed(self, view: View) -> None:
        self.views.append(list(view.members))

    def snapshot(self) -> Any:
        return [list(self.lines), list(self.views)]

    def restore(self, snapshot: Any) -> None:
        self.lines, self.views = snapshot

    def merge(self, parts: Sequence[Part], view: View) -> None:
        self.lines = sorted(line for line in {str(line): line for part in parts for line in part.state[0]}.values())
        self.views = [list(view.members)]


def run(main: Main, **options: Any) -> sim.Result:
    result = sim.run(main, **{"state": True, **options})
    assert result.verdict == "holds", [violation.sentence for violation in result.violations]
    return result


def test_the_outcome_of_a_command_is_what_apply_returned_at_its_place() -> None:
    async def main(group: Group) -> tuple[list[int], list[Any]]:
        log = Log()
        async with Replica(group, log=log) as replica:
            places = [await log.execute(number) for number in range(3)]
            await replica.until(lambda: len(log.lines) == 9)
            return places, log.lines

    returned = run(main, members=3).returned
    assert len({str(lines) for _, lines in returned.values()}) == 1
    assert sorted(place for places, _ in returned.values() for place in places) == list(range(1, 10))


def test_a_refused_command_changes_nothing_and_is_told_to_who_gave_it() -> None:
    async def main(group: Group) -> int:
        log = Log()
        async with Replica(group, log=log) as replica:
            with pytest.raises(CommandRefused, match="not to be"):
                await log.execute("no")
            await replica.catch_up()
            return len(log.lines)

    assert set(run(main, members=2).returned.values()) == {0}


def test_who_joins_has_the_state_before_anything_else() -> None:
    async def main(group: Group) -> Any:
        log = Log()
        async with Replica(group, log=log) as replica:
            if group.me == "q1":
                assert len(log.lines) == 6
                await log.execute("late")
            else:
                for number in range(2):
                    await log.execute(number)
            await replica.until(lambda: len(log.lines) == 7)
            return log.lines, log.views

    result = run(main, members=3, later=["q1"], faults=[{"kind": "join", "process": "q1", "at": "300ms"}])
    assert len({str(value) for value in result.returned.values()}) == 1
    assert len(result.returned) == 4


def test_who_joins_without_state_transfer_is_told_what_to_do() -> None:
    async def main(group: Group) -> None:
        async with Replica(group, log=Log()) as replica:
            while group.me != "q1":
                await replica.execute("log", "busy")
                await asyncio.sleep(0.05)

    faults = [{"kind": "join", "process": "q1", "at": "300ms"}]
    result = sim.run(main, members=3, later=["q1"], faults=faults, raises=False, duration="1s", drain="1s")
    assert "state=True" in str(result.outcomes["q1"].error)


def test_a_group_without_one_order_is_refused() -> None:
    async def main(group: Group) -> None:
        Replica(group, log=Log())

    with pytest.raises(UsageError, match="different orders"):
        sim.run(main, members=2, protocol="newtop", parameters={"order": "fast"})


@pytest.mark.parametrize(("wrong", "says"), [
    (lambda group: Replica(group), "give each a name"),
    (lambda group: Replica(group, patience=0, log=Log()), "patience"),
    (lambda group: [Replica(group, log=log, again=log) for log in [Log()]], "make another one"),
    (lambda group: Log().replica, "in no group yet"),
])  # fmt: skip
def test_what_cannot_be_is_refused_with_a_hint(wrong: Callable[[Group], Any], says: str) -> None:
    async def main(group: Group) -> None:
        with pytest.raises(UsageError, match=says):
            wrong(group)

    sim.run(main, members=2)


def test_members_with_different_blocks_are_told() -> None:
    async def main(group: Group) -> None:
        blocks: dict[str, Any] = {"log": Log()} if group.me == "p1" else {"sum": Counter()}
        async with Replica(group, **blocks) as replica:
            with pytest.raises((ReplicaOver, UsageError)):
                await replica.execute(next(iter(blocks)), 1)
            await replica.ended()

    with pytest.raises(UsageError, match="give all members the same blocks"):
        sim.run(main, members=2, state=True)


def test_a_block_that_fails_ends_the_replica_with_its_error() -> None:
    async def main(group: Group) -> None:
        log = Log()
        async with Replica(group, log=log):
            with pytest.raises(OutcomeUnknown, match="a defect of the block"):
                await log.execute("fail")
            with pytest.raises(ReplicaOver):
                await log.execute("more")

    with pytest.raises(ZeroDivisionError):
        sim.run(main, members=2)


def test_messages_of_the_program_itself_come_in_their_place() -> None:
    async def main(group: Group) -> list[bytes]:
        log, heard = Log(), list[bytes]()

        def take(message: Message) -> None:
            heard.append(b"%d lines before %b" % (len(log.lines), message.payload))

        async with Replica(group, messages=take, log=log) as replica:
            if group.me == "p1":
                await log.execute("first")
                await group.send(b"hello")
            await replica.until(lambda: bool(heard))
        return heard

    assert run(main, members=2).returned == {name: [b"1 lines before hello"] for name in ("p1", "p2")}


def test_a_message_that_nobody_takes_is_an_error() -> None:
    async def main(group: Group) -> None:
        async with Replica(group, log=Log()) as replica:
            await group.send(b"hello")
            await replica.ended()

    with pytest.raises(UsageError, match="messages="):
        sim.run(main, members=2)


def test_who_is_cut_off_learns_that_the_outcome_is_unknown_and_then_that_it_is_over() -> None:
    async def main(group: Group) -> str:
        log = Log()
        async with Replica(group, log=log) as replica:
            await asyncio.sleep(0.3)
            if group.me != "p3":
                await log.execute("one")
                return "fine"
            with pytest.raises(OutcomeUnknown) as unknown:
                await log.execute("one")
            assert replica.over is unknown.value.reason
            with pytest.raises(ReplicaOver):
                await log.execute("two")
            return "cut off"

    cut = {"kind": "partition", "at": "200ms", "length": "5s", "parts": [["p1", "p2"], ["p3"]]}
    returned = sim.run(main, members=3, state=True, faults=[cut], raises=False).outcomes
    assert [outcome.value for outcome in returned.values()] == ["fine", "fine", "cut off"]


def test_patience_is_bounded_and_says_what_is_waited_for() -> None:
    async def main(group: Group) -> None:
        log = Log()
        async with Replica(group, patience=0.05, log=log) as replica:
            await asyncio.sleep(0.21)
            if group.me == "p3":
                with pytest.raises(NoOutcome, match=r"0\.05 s"):
                    await log.execute("one")
            with pytest.raises(NoOutcome):
                await replica.until(lambda: False, timeout=0.01)

    cut = {"kind": "partition", "at": "200ms", "length": "100ms", "parts": [["p1", "p2"], ["p3"]]}
    run(main, members=3, faults=[cut])


@pytest.mark.parametrize(("protocol", "parameters"), [
    ("sequencer", {}), ("sequencer", {"resilience": 1}), ("newtop", {}), ("rtcast", {}), ("mailbox", {}), ("dedos", {}),
    ("dedos", {"reach": "node"}),
])  # fmt: skip
def test_what_was_applied_can_be_made_certain(protocol: str, parameters: dict[str, Any]) -> None:
    async def main(group: Group) -> bool:
        log = Log()
        async with Replica(group, log=log) as replica:
            await log.execute("one")
            await replica.settle(timeout=5)
            return True

    assert list(run(main, members=3, protocol=protocol, parameters=parameters).returned.values()) == [True] * 3


def test_settling_waits_for_those_who_may_be_gone() -> None:
    """A member that does not answer is waited for until the view lacks it."""

    async def main(group: Group) -> Any:
        log = Log()
        async with Replica(group, log=log) as replica:
            await asyncio.sleep(0.3)
            await log.execute("one")
            await replica.settle(timeout=5)
            return group.members

    result = run(main, members=3, protocol="newtop", faults=[{"kind": "crash", "process": "p3", "at": "250ms"}])
    assert set(map(tuple, result.returned.values())) == {("p1", "p2")}


# --- parts that come together -------------------------------------------------------------------------------------------


def test_parts_come_to_one_state_and_go_on_from_there() -> None:
    async def main(group: Group) -> Any:
        log = Log()
        async with Replica(group, log=log) as replica:
            await asyncio.sleep(1.0)
            await log.execute("apart")
            await replica.until(lambda: len(group.members) == 5 and not replica.is_merging and len(log.lines) == 5)
            await log.execute("together")
            await replica.until(lambda: len(log.lines) == 10)
            return log.lines

    result = run(main, members=5, protocol="newtop", faults=[APART])
    assert len({str(lines) for lines in result.returned.values()}) == 1


def test_newcomers_belong_to_the_first_part() -> None:
    view = View("g", 7, ("a", "b", "c", "d"), parts=(("a", "b"), ("c",), ("d",)), newcomers=("d",))
    merge = Merge(view, parts_of(view))
    assert merge.parts == [("a", "b", "d"), ("c",)]
    assert merge.members_of(0) == ("a", "b")
    assert not merge.is_complete
    merge.said[0] = "d", []
    merge.leave_out(["a", "b", "d"])
    assert merge.is_complete


def test_a_merge_that_goes_on_travels_with_the_state() -> None:
    view = View("g", 7, ("a", "b"), parts=(("a",), ("b",)))
    merge = Merge(view, parts_of(view))
    merge.said[1] = "b", [["x", "log", [1]]]
    merge.held = [Message("a", b"command", 3, "g", 9), View("g", 8, ("a",), (), {})]
    again = merge_in(merge_out(merge), "g")
    assert (again.key, again.parts, again.said, again.gone) == (merge.key, merge.parts, merge.said, merge.gone)
    assert again.held == merge.held


# --- notes --------------------------------------------------------------------------------------------------------------


def test_a_program_can_note_what_it_does() -> None:
    async def main(group: Group) -> None:
        assert group.is_traced
        group.note("payment", amount=3)
        with pytest.raises(UsageError, match="not JSON"):
            group.note("payment", amount=object())
        with pytest.raises(UsageError, match="about something"):
            group.note("")

    table = sim.run(main, members=2).trace
    rows = [row for row in table.to_pylist() if row["kind"] == "note"]
    assert [(row["group"], row["view"], row["detail"]) for row in rows] == 2 * [("g", 1, '{"amount":3,"note":"payment"}')]
