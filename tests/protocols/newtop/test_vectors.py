"""What messages carry for the causal orders: stamping, waiting, learning."""

from __future__ import annotations

from typing import Any

from plainchant.core.model import Batch
from plainchant.protocols.newtop.matrix import Column
from plainchant.protocols.newtop.packets import Data, Vector
from plainchant.protocols.newtop.parameters import Parameters
from plainchant.protocols.newtop.part import Part
from plainchant.protocols.newtop.vectors import Compact, Counted, Keyed, Relative
from tests.fakes import FakeHost, as_host

GROUPS = {"x": ("a", "b", "c"), "y": ("b", "c")}


def parts(me: str, **parameters: Any) -> dict[str, Part]:
    """A process's parts in the groups that it is in."""
    settings = Parameters(**{"order": "fast", **parameters})
    return {group: Part(as_host(FakeHost(me)), group, members, settings) for group, members in GROUPS.items() if me in members}


def message(group: str, block: int, vector: Vector = (), previous: int = 0) -> Data:
    return Data(group, block, previous, block, 0, 0, 0, Batch(block, 1, b""), vector)


def arrive(part: Part, source: str, packet: Data, *, delivered: bool = True) -> Column:
    column = part.matrix.columns[source]
    part.matrix.represent(column, packet)
    if delivered:
        column.count += 1
    else:
        column.queue.append(packet)
    return column


# --- keyed and counted --------------------------------------------------------------------------------------------------------


def test_keyed_carries_the_largest_block_of_each_member_and_group() -> None:
    mine = parts("b")
    keyed = Keyed("b", mine)
    assert keyed.stamp(mine["x"]) == ()
    keyed.learn(mine["x"], mine["x"].matrix.columns["a"], message("x", 4), 1)
    keyed.learn(mine["y"], mine["y"].matrix.columns["c"], message("y", 7), 1)
    keyed.learn(mine["x"], mine["x"].matrix.columns["c"], message("x", 5), 1)
    assert dict(keyed.stamp(mine["x"])) == {"x": (4, 0, 5), "y": (0, 7)}


def test_keyed_keeps_the_larger_numbers_also_of_groups_that_it_is_not_in() -> None:
    mine = parts("a")
    keyed = Keyed("a", mine)
    keyed.learn(mine["x"], mine["x"].matrix.columns["b"], message("x", 9, (("y", (8, 3)),)), 1)
    keyed.learn(mine["x"], mine["x"].matrix.columns["c"], message("x", 9, (("y", (2, 6)),)), 1)
    assert dict(keyed.stamp(mine["x"])) == {"x": (0, 9, 9), "y": (8, 6)}


def test_keyed_waits_for_a_member_of_a_group_that_it_is_in_and_for_no_other() -> None:
    at_c, at_a = parts("c"), parts("a")
    packet = message("x", 9, (("y", (8, 0)),))
    need = Keyed("c", at_c).unmet(at_c["x"], packet)
    assert need == (at_c["y"].matrix.columns["b"], 8)
    assert Keyed("a", at_a).unmet(at_a["x"], packet) is None


def test_keyed_is_met_by_what_is_here_and_delivered() -> None:
    mine = parts("c")
    keyed = Keyed("c", mine)
    packet = message("x", 9, (("y", (8, 0)),))
    column = arrive(mine["y"], "b", message("y", 8), delivered=False)
    assert keyed.unmet(mine["x"], packet) == (column, 8)
    column.queue.clear()
    assert keyed.unmet(mine["x"], packet) is None


def test_counted_carries_numbers_of_messages() -> None:
    mine = parts("c", order="cbcast")
    counted = Counted("c", mine)
    counted.learn(mine["x"], mine["x"].matrix.columns["a"], message("x", 40), 1)
    counted.learn(mine["x"], mine["x"].matrix.columns["a"], message("x", 70), 2)
    assert counted.stamp(mine["x"]) == (("x", (2, 0, 0)),)
    packet = message("x", 90, (("y", (2, 0)),))
    column = arrive(mine["y"], "b", message("y", 50))
    assert counted.unmet(mine["x"], packet) == (column, 2), "one of two has been delivered"
    arrive(mine["y"], "b", message("y", 60, previous=50))
    assert counted.unmet(mine["x"], packet) is None


# --- compact ------------------------------------------------------------------------------------------------------------------


def test_compact_carries_one_number_a_process_whatever_the_group() -> None:
    mine = parts("b", vectors="compact")
    compact = Compact("b", mine)
    compact.learn(mine["x"], mine["x"].matrix.columns["c"], message("x", 4), 1)
    compact.learn(mine["y"], mine["y"].matrix.columns["c"], message("y", 7, (("z", (9,)),)), 1)
    compact.learn(mine["x"], mine["x"].matrix.columns["a"], message("x", 5, (("c", (6,)),)), 1)
    assert dict(compact.stamp(mine["x"])) == {"c": (7,), "z": (9,), "a": (5,)}


def test_compact_waits_in_every_group_that_it_shares_with_the_process() -> None:
    mine = parts("c", vectors="compact")
    compact = Compact("c", mine)
    packet = message("x", 9, (("b", (8,)), ("stranger", (5,)), ("c", (99,))))
    arrive(mine["x"], "b", message("x", 8))
    assert compact.unmet(mine["x"], packet) == (mine["y"].matrix.columns["b"], 8), "it may have been sent in y"
    arrive(mine["y"], "b", message("y", 9))
    assert compact.unmet(mine["x"], packet) is None, "anything as large in y shows that it was not"


# --- relative -----------------------------------------------------------------------------------------------------------------


def test_relative_carries_its_own_groups_members_and_a_number_for_each_other_group() -> None:
    mine = parts("b", order="relative")
    relative = Relative("b", mine)
    assert relative.stamp(mine["x"]) == (("x", (0, 0, 0)),)
    relative.learn(mine["x"], mine["x"].matrix.columns["a"], message("x", 4, (("x", (0, 0, 0)),)), 1)
    relative.learn(mine["y"], mine["y"].matrix.columns["c"], message("y", 7, (("y", (0, 0)), ("z", (3,)))), 1)
    for group, own, others in (("x", (4, 0, 0), {"y": (7,), "z": (3,)}), ("y", (0, 7), {"x": (4,), "z": (3,)})):
        first, *rest = relative.stamp(mine[group])
        assert first == (group, own)
        assert dict(rest) == others


def test_relative_keeps_the_largest_number_of_a_group() -> None:
    mine = parts("b", order="relative")
    relative = Relative("b", mine)
    for source, block in (("a", 9), ("c", 2)):
        relative.learn(mine["x"], mine["x"].matrix.columns[source], message("x", block, (("x", (0, 0, 0)),)), 1)
    assert relative.groups == {"x": 9}
    assert relative.last == {"x": [9, 0, 2]}


def test_relative_waits_for_members_of_its_own_group_and_for_all_blocks_of_another() -> None:
    mine = parts("c", order="relative")
    relative = Relative("c", mine)
    packet = message("x", 9, (("x", (4, 0, 0)), ("y", (7,)), ("z", (3,))))
    assert relative.unmet(mine["x"], packet) == (mine["x"].matrix.columns["a"], 4)
    arrive(mine["x"], "a", message("x", 4))
    assert relative.unmet(mine["x"], packet) == (mine["y"], 7)
    arrive(mine["y"], "b", message("y", 7))
    assert relative.unmet(mine["x"], packet) == (mine["y"], 7), "c itself has not completed it"
    arrive(mine["y"], "c", message("y", 8))
    assert relative.unmet(mine["x"], packet) is None
