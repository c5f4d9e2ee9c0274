"""How processes find each other, get their names, and form a group: one first view, whatever is lost and whoever restarts."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from plainchant.core.model import Form, Join
from plainchant.live.presence import (
    BOUND,
    JOINING,
    LARGEST_INCARNATION,
    LONGEST_TERMS,
    MEMBER,
    MOST_FIRST,
    MOST_GROUPS,
    MOST_STRANGERS,
    NEW_STRANGERS,
    Hello,
    Known,
    Presence,
    Standing,
)
from plainchant.live.transport import Address

PLACES = ("a", "b", "c")


def address_of(place: str) -> Address:
    return ("10.0.0.1", 7000 + ord(place))


class Town:
    """Processes in one memory: hellos wait in a list until they are delivered, lost, repeated or delivered late."""

    def __init__(self, seed: int = 0, *, loss: float = 0.0, repeat: float = 0.0) -> None:
        self.random = Random(seed)
        self.loss = loss
        self.repeat = repeat
        self.boots = 0
        self.processes: dict[str, Presence] = {}
        self.under_way: list[tuple[Address, Address, Hello]] = []
        self.formed: dict[str, tuple[str, ...]] = {}
        self.boots_of: dict[tuple[str, ...], set[bytes]] = {}
        self.joined: list[str] = []

    def start(self, place: str, *, incarnation: int = 0, group: str | None = "g", first: tuple[str, ...] = PLACES) -> Presence:
        self.boots += 1
        boot = self.boots.to_bytes(4)

        def send(to: object, hello: Hello) -> None:
            assert isinstance(to, tuple)
            self.under_way.extend((address_of(place), target, hello) for target in to if self.processes.get(place) is process)

        peers = {other: address_of(other) for other in PLACES}
        process = Presence(place, boot, peers, send, lambda: None, incarnation=incarnation)
        self.processes[place] = process
        if group is not None:
            process.want(group, first)
        return process

    def stop(self, place: str) -> None:
        del self.processes[place]

    def step(self) -> None:
        """Delivers one hello, some at random places."""
        source, target, hello = self.under_way.pop(self.random.randrange(len(self.under_way)) if self.loss else 0)
        if self.random.random() < self.repeat:
            self.under_way.append((source, target, hello))
        if self.random.random() < self.loss:
            return
        for place, process in self.processes.items():
            if address_of(place) == target:
                process.on_hello(source, hello)
                return

    def run(self, rounds: int = 12) -> None:
        """Delivers what is under way, ticks, and lets in who has a way in."""
        for _ in range(rounds):
            for _ in range(len(self.under_way) + 200):
                if not self.under_way:
                    break
                self.step()
                self.enter()
            assert not self.under_way, "hellos that answer hellos have to come to an end"
            for process in list(self.processes.values()):
                process.tick()
            self.enter()

    def enter(self) -> None:
        for process in self.processes.values():
            how = process.way_in("g")
            if isinstance(how, Form):
                assert process.name in how.members
                self.formed[process.name] = how.members
                self.boots_of.setdefault(how.members, set()).add(process.boot)
                process.enter("g", how)
            elif isinstance(how, Join):
                self.joined.append(process.name)
                process.enter("g", how)
                if any(other.name in how.contacts for other in self.processes.values()):
                    process.entered("g")


def test_three_processes_form_one_group_in_the_order_of_the_first_members() -> None:
    town = Town()
    for place in ("c", "a", "b"):
        town.start(place)
    town.run()
    assert town.formed == dict.fromkeys(PLACES, PLACES)


def test_nothing_is_formed_while_one_is_missing_and_the_sentence_says_who() -> None:
    town = Town()
    town.start("a")
    town.start("b")
    town.run()
    assert not town.formed
    assert "not heard: c at 10.0.0.1:7099" in town.processes["a"].missing("g")
    town.start("c", group=None)
    town.run()
    assert "there, but not in this group: c" in town.processes["a"].missing("g")
    town.processes["c"].want("g", PLACES)
    town.run()
    assert set(town.formed) == set(PLACES)


def test_who_waits_for_another_group_is_named_with_it() -> None:
    town = Town()
    town.start("a")
    town.start("b")
    town.start("c", group="h")
    town.run()
    said = town.processes["a"].missing("g")
    assert said.startswith("there, but not in this group: c; c waits for h first: enter groups in the same order everywhere")
    assert "a waits for g first, b waits for g first: " in town.processes["c"].missing("h")


def test_those_who_gave_up_and_went_away_are_not_said_to_wait() -> None:
    town = Town()
    town.start("a")
    town.start("b")
    late = town.start("c", group=None)
    town.run()
    town.stop("a")
    town.stop("b")
    late.want("g", PLACES)
    town.run()
    assert late.missing("g") == "heard before, but not any more: a at 10.0.0.1:7097, b at 10.0.0.1:7098"
    town.start("a", group=None)
    town.run()
    assert late.missing("g") == "heard before, but not any more: b at 10.0.0.1:7098; there, but not in this group: a"


def test_what_is_known_is_said_where_everybody_waits_and_nothing_is_formed() -> None:
    town = Town()
    town.start("a", first=("a", "d"))
    for place in ("b", "c"):
        town.start(place)
    town.run()
    assert town.processes["c"].missing("g") == (
        "everybody is heard and waits; a begins it, once it has heard all whom it was given as members"
    )
    town.start("c", first=("a", "b"))
    town.run()
    assert town.processes["c"].missing("g") == "nobody is a member yet; it is formed by a, b"
    town.start("c", first=())
    town.run()
    assert town.processes["c"].missing("g") == "nobody is a member yet"


def test_who_is_left_out_by_those_who_form_a_group_is_told_so() -> None:
    town = Town()
    left_out = town.start("c", group=None)
    first = town.start("a", first=("a", "b"))
    town.start("b", first=("a", "b"))
    for _ in range(200):
        if first.standing["g"].state == BOUND:
            break
        town.step()
    assert first.standing["g"].state == BOUND
    town.start("b", group=None)  # it never learns of the list that it is in
    town.run()
    left_out.want("g", ("c",))
    town.run()
    assert not town.formed
    assert left_out.missing("g") == "a agreed to form it without c; give everybody the same members"


def test_a_process_that_comes_back_gets_the_next_name_and_joins() -> None:
    town = Town()
    for place in PLACES:
        town.start(place)
    town.run()
    town.stop("b")
    again = town.start("b")
    town.run()
    assert again.name == "b#1"
    assert town.joined == ["b#1"]
    assert town.processes["a"].routes["b#1"] == address_of("b")
    assert "b" not in town.processes["a"].routes, "what is sent to a name that has a successor goes nowhere"


def test_a_packet_counts_only_from_who_knows_us_and_under_its_boot() -> None:
    town = Town()
    a, b = town.start("a"), town.start("b")
    assert a.sources == {}
    town.run()
    assert a.sources[address_of("b")] == (b.boot, "b")
    town.stop("b")
    new = town.start("b")
    assert new.sources == {}, "a does not know the new b yet: its packets may be meant for the old one"
    town.run()
    assert new.sources[address_of("a")] == (a.boot, "a")
    assert a.sources[address_of("b")] == (new.boot, "b#1")


def test_a_hello_from_the_dead_changes_nothing() -> None:
    town = Town()
    a, b = town.start("a"), town.start("b")
    town.run()
    old = Hello("b", 0, b.boot, False, {}, {})
    town.stop("b")
    new = town.start("b")
    town.run()
    a.on_hello(address_of("b"), old)
    assert a.peers["b"].boot == new.boot
    assert a.peers["b"].name == "b#1"


def test_a_newcomer_that_nobody_lists_is_found_by_whoever_seeks_it() -> None:
    town = Town()
    for place in PLACES:
        town.start(place)
    town.run()
    a = town.processes["a"]
    a.on_hello(("10.0.0.9", 9000), Hello("z", 0, b"zzzz", True, {}, {}))
    town.run()
    town.processes["c"].seek()
    town.run()
    assert town.processes["c"].peers["z"].address == ("10.0.0.9", 9000)


def test_who_made_the_list_may_die_before_anybody_formed_the_group() -> None:
    town = Town()
    for place in PLACES:
        town.start(place)
    for _ in range(200):
        if town.processes["b"].standing["g"].state == BOUND or not town.under_way:
            break
        town.step()
    assert town.processes["b"].standing["g"].state == BOUND
    town.stop("a")
    town.run()
    assert town.formed == {"b": PLACES, "c": PLACES}
    again = town.start("a")
    town.run()
    assert again.name == "a#1"
    assert town.joined == ["a#1"]


@pytest.mark.parametrize("seed", range(60))
def test_there_is_one_first_view_whatever_is_lost_and_whoever_restarts(seed: int) -> None:
    town = Town(seed, loss=0.3, repeat=0.2)
    for place in PLACES:
        town.start(place)
    for _ in range(6):
        for _ in range(town.random.randrange(40)):
            if town.under_way:
                town.step()
                town.enter()
        place = town.random.choice(PLACES)
        town.stop(place)
        town.start(place)
    town.loss = town.repeat = 0.0
    town.run(rounds=30)
    # (Where everybody has restarted, nobody remembers the old names, and they are used again: hence boots.)
    boots = [boot for formed in town.boots_of.values() for boot in formed]
    assert len(boots) == len(set(boots)), f"a process is in two first views: {town.boots_of}"
    alive = list(town.processes.values())
    # Who is bound to a list that cannot be any more is told so, and who asks the dead to be let in gives up in time; both are
    # started again, and then there is a group.
    for _ in range(3):
        if all(process.standing["g"].state == MEMBER for process in alive):
            break
        for place in PLACES:
            process = town.processes[place]
            if process.lost("g") or process.standing["g"].state == JOINING:
                town.stop(place)
                town.start(place)
        town.run(rounds=30)
        alive = list(town.processes.values())
    assert all(process.standing["g"].state == MEMBER for process in alive), [(p.name, p.standing) for p in alive]


# --- bounds -----------------------------------------------------------------------------------------------------------


def hello(place: str, **changed: Any) -> Hello:
    said = {"incarnation": 0, "boot": b"boot", "answer": False, "groups": {}, "known": {}, **changed}
    return Hello(place, **said)


def alone() -> tuple[Presence, list[Hello]]:
    sent: list[Hello] = []
    peers = {place: address_of(place) for place in PLACES}
    presence = Presence("a", b"mine", peers, lambda to, said: sent.append(said), lambda: None)
    return presence, sent


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (hello("b", incarnation=-1), "future"),
        (hello("b", incarnation=LARGEST_INCARNATION + 1), "future"),
        (hello("b", known={"c": Known(1 << 60, b"boot", "127.0.0.1", 9)}), "future"),
        (hello("b", boot=b"too long"), "hello"),
        (hello("b" * 51), "hello"),
        (hello(""), "hello"),
        (hello("b#1"), "hello"),
        (hello("b", terms="t" * (LONGEST_TERMS + 1)), "hello"),
        (hello("b", groups={f"{n}": Standing(MEMBER) for n in range(MOST_GROUPS + 1)}), "hello"),
        (hello("b", groups={"g" * 51: Standing(MEMBER)}), "hello"),
        (hello("b", groups={"g": Standing(MEMBER, ("x",) * (MOST_FIRST + 1))}), "hello"),
        (hello("b", known={"c" * 51: Known(0, b"boot", "127.0.0.1", 9)}), "hello"),
        (hello("b", known={"c": Known(0, b"", "127.0.0.1", 9)}), "hello"),
    ],
)
def test_a_hello_that_breaks_its_bounds_is_counted_and_changes_nothing(said: Hello, reason: str) -> None:
    presence, sent = alone()
    presence.on_hello(address_of("b"), said)
    assert presence.refusals.as_dict()[reason] == presence.refusals.total == 1
    assert not any(peer.heard for peer in presence.peers.values())
    assert sent == []


def test_strangers_are_bounded_and_who_knows_us_stays() -> None:
    presence, sent = alone()
    friend = hello("friend", known={"a": Known(0, b"mine", "127.0.0.1", 1)})
    presence.on_hello(("127.0.0.1", 8), friend)
    assert presence.name_at("friend") == "friend"
    for number in range(1000):
        known = {f"k{number}": Known(0, b"boot", "127.0.0.1", 9)}
        presence.on_hello(("127.0.0.1", 1000 + number), hello(f"s{number}", known=known))
        presence.meet(("127.0.0.1", 1000 + number))
        if not number % 5:
            presence.tick()
        assert len(presence.peers) <= 2 + MOST_STRANGERS
        assert len(presence._strangers) <= MOST_STRANGERS
        assert len(presence.routes) <= len(presence.peers)
    assert presence.name_at("friend") == "friend"
    assert set(PLACES[1:]) <= set(presence.peers)
    assert max(len(said.known) for said in sent) <= 2 + MOST_STRANGERS
    for number in range(100):
        presence.on_hello(("127.0.0.1", 3000 + number), hello(f"f{number}", known={"a": Known(0, b"mine", "127.0.0.1", 1)}))
        presence.tick()
    assert len(presence.peers) == 2 + MOST_STRANGERS
    assert presence.refusals.crowded > 30


def test_strangers_come_in_slowly() -> None:
    presence, _ = alone()
    for number in range(100):
        presence.on_hello(("127.0.0.1", 1000 + number), hello(f"s{number}"))
    assert len(presence.peers) == 2 + NEW_STRANGERS
    assert presence.refusals.crowded == 100 - NEW_STRANGERS
    assert presence.seeking
    presence.tick()
    presence.on_hello(("127.0.0.1", 2000), hello("late"))
    assert "late" in presence.peers
