"""Sealed packets: who is let through, and that nothing else is, whatever an attacker does with what it has recorded."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plainchant.live import sealed as sealing
from plainchant.live import sessions
from plainchant.live.keys import Key, Keyring
from plainchant.live.refusals import PROOF, SEALED
from plainchant.live.sealed import Sealed
from plainchant.live.sessions import DATA_HEAD, WINDOW, Own, Session
from plainchant.live.transport import Address, Limits
from plainchant.protocols.buffers import room

from .wiretap import AT, End, Seen, Tap


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds in time are tested by themselves: elsewhere a moment is over at once."""
    monkeypatch.setattr(sealing, "MOMENT", 0.0)


def run(test: Callable[[Tap], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await test(Tap())

    asyncio.run(main())


# --- what it is for -------------------------------------------------------------------------------------------------


def test_words_come_through_and_nobody_else_can_read_them() -> None:
    async def test(tap: Tap) -> None:
        a, b, c = await tap.acquainted()
        a.says(b"the password is swordfish", "b", "c")
        tap.deliver()
        assert b.heard == c.heard == [(a.address, b"the password is swordfish")]
        assert not any(b"swordfish" in seen.data for seen in tap.recorded)
        assert (b.refusals.total, c.refusals.total) == (0, 0)
        assert b.sealed.place_at(a.address) == "a"

    run(test)


def test_a_packet_is_sealed_once_for_all_its_receivers() -> None:
    async def test(tap: Tap) -> None:
        a, _, _ = await tap.acquainted()
        tap.recorded.clear()
        a.says(b"one", "b", "c")
        assert len(tap.recorded) == 2
        assert len({seen.data for seen in tap.recorded}) == 1
        assert len(tap.recorded[0].data) == len(b"\xc1crc.bootone") + 30 + 2 * 4 + 16

    run(test)


def test_limits_leave_room_for_what_sealing_adds() -> None:
    async def test(tap: Tap) -> None:
        a, b, _ = await tap.acquainted()
        assert a.sealed.limits.packet == 65_507 - 30 - 3 * 4 - 16
        assert a.sealed.limits.buffer == 1 << 20
        a.sealed.inner.limits = Limits(1_700, 1 << 20)  # type: ignore[misc]
        assert room(1 << 20, a.sealed.limits.packet) > room(1 << 20, 1_700)  # a sealed packet takes more of the buffer
        assert room(a.sealed.limits.buffer, a.sealed.limits.packet) <= room(1 << 20, 1_700)
        a.sealed.inner.limits = Limits(65_507, 1 << 20)  # type: ignore[misc]
        tap.recorded.clear()
        a.sealed.send((b.address, AT["c"]), b"\xc1crc." + a.boot + bytes(a.sealed.limits.packet - 9))
        assert max(len(seen.data) for seen in tap.recorded) <= 65_507

    run(test)


def test_more_receivers_than_a_packet_names_get_it_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "MOST_RECEIVERS", 1)

    async def test(tap: Tap) -> None:
        a, b, c = await tap.acquainted()
        a.says(b"one", "b", "c")
        tap.deliver()
        assert b.words() == c.words() == [b"one"]

    run(test)


def test_what_a_process_sends_to_itself_comes_back() -> None:
    async def test(tap: Tap) -> None:
        a, _, _ = await tap.acquainted()
        a.says(b"to all", "a", "b")
        tap.deliver()
        a.sealed.use(Keyring.new())
        a.says(b"again", "a")
        tap.deliver()
        assert a.words() == [b"to all", b"again"]

    run(test)


def test_nothing_is_sent_to_whom_nobody_has_proved_but_a_knock() -> None:
    async def test(tap: Tap) -> None:
        a, b = await tap.start("a"), await tap.start("b")
        a.says(b"lost", "b")
        assert [seen.data[0] for seen in tap.under_way] == [PROOF]
        assert a.sealed.unproved == 1
        tap.deliver()
        assert (a.proved, b.proved) == ([b.address], [a.address])
        assert b.heard == []
        assert a.sealed.sessions == b.sealed.sessions == 2

    run(test)


def test_who_has_no_key_or_another_one_is_refused_and_counted() -> None:
    async def test(tap: Tap) -> None:
        a, b, _ = await tap.acquainted()
        stranger = await tap.start("c", Keyring.new())
        stranger.says(b"let me in", "a", "b")
        tap.deliver()
        assert (a.heard, b.heard, stranger.heard) == ([], [], [])
        assert (a.refusals.other_key, b.refusals.other_key) == (1, 1)
        a.gets(AT["c"], b"\xc1crc.boothello")
        assert a.refusals.unsealed == 0  # it is too short for anything sealed
        a.gets(AT["c"], b"\xc1" + bytes(100))
        a.gets(AT["c"], b"\x00" + bytes(100))
        a.gets(AT["c"], bytes((SEALED,)))
        assert (a.refusals.unsealed, a.refusals.noise, a.refusals.truncated) == (1, 1, 2)

    run(test)


# --- the window -------------------------------------------------------------------------------------------------------


@given(numbers=st.lists(st.integers(1, 3 * WINDOW) | st.integers(1, 50), max_size=80), start=st.integers(0, 10))
def test_no_number_is_taken_twice_and_none_from_behind_the_window(numbers: list[int], start: int) -> None:
    session = Session(KEY, bytes(16), "a")
    session.begin_after(start)
    taken: set[int] = set()
    for number in numbers:
        highest = max(taken, default=start)
        expected = number not in taken and number > max(start, highest - WINDOW)
        assert session.is_new(number) is expected
        if expected:
            session.took(number)
            taken.add(number)


KEY = Key.new()


def test_what_overtakes_is_taken_and_its_copies_are_not() -> None:
    async def test(tap: Tap) -> None:
        a, b, _ = await tap.acquainted()
        for number in range(5):
            a.says(b"%d" % number, "b")
        overtaken = tap.under_way[::-1] + tap.under_way
        tap.under_way.clear()
        for seen in overtaken:
            tap.hand_on(seen)
        assert b.words() == [b"4", b"3", b"2", b"1", b"0"]
        assert b.refusals.replayed == 5

    run(test)


def test_numbers_that_nobody_can_have_reached_are_refused() -> None:
    async def test(tap: Tap) -> None:
        a, b, _ = await tap.acquainted()
        a.says(b"one", "b")
        (seen,) = tap.under_way
        _, key, salt, _, count = DATA_HEAD.unpack_from(seen.data)
        tap.hand_on(Seen(seen.source, seen.to, DATA_HEAD.pack(SEALED, key, salt, 1 << 40, count) + seen.data[30:]))
        assert (b.heard, b.refusals.future) == ([], 1)

    run(test)


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_ends_before_its_numbers_and_nobody_notices() -> None:
    async def test(tap: Tap) -> None:
        a, b, c = await tap.acquainted()
        a.sealed._own = Own(tap.ring.sealing, a.boot, "a", 12)
        a.sealed._sessions[a.sealed._own.salt] = a.sealed._own
        a.sealed._numbers = 12
        a.sealed._begin_session()
        for number in range(60):
            a.says(b"%d" % number, "b", "c")
            tap.deliver()
        assert b.words() == c.words() == [b"%d" % number for number in range(60)]
        assert len({seen.data[5:21] for seen in tap.recorded if seen.source == a.address}) >= 6
        assert nonces_used_twice(tap) == []

    run(test)


def test_a_session_that_is_over_seals_no_more() -> None:
    own = Own(KEY, b"boot", "a", 3)
    own.prove(0, bytes(16))
    own.prove(0, bytes(16))
    assert own.is_over
    with pytest.raises(Exception, match="begin another one"):
        own.seal(b"\1boot", b"")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_copy_of_the_process_does_not_go_on_with_the_same_numbers() -> None:
    async def test(tap: Tap) -> None:
        a, _, _ = await tap.acquainted()
        before = a.sealed._own.salt
        child = os.fork()
        if not child:
            a.says(b"from the copy", "b")
            os._exit(0 if a.sealed._own.salt != before else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert a.sealed._own.salt == before

    run(test)


def test_sessions_are_bounded_and_what_was_forgotten_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "MOST_SESSIONS", 12)

    async def test(tap: Tap) -> None:
        a, b, _ = await tap.acquainted()
        for number in range(40):
            c = await tap.start("c")
            tap.acquaint()
            c.says(b"%d" % number, "a", "b")
            tap.deliver()
            assert a.words() == b.words() == [b"%d" % number]
            assert a.sealed.sessions <= 13
            if not number % 5:
                replay(tap)
                assert a.words() == b.words() == [b"%d" % number]

    run(test)


def test_asks_and_derivations_are_bounded_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "MOMENT", 1000.0)

    async def test(tap: Tap) -> None:
        a = await tap.start("a")
        for number in range(1000):
            other = Own(tap.ring.sealing, os.urandom(4), "x")
            source = ("10.9.9.9", 1 + number)
            a.gets(source, other.seal(b"\1" + a.boot, bytes(40)))
            a.gets(source, other.prove(sessions.KNOCK, bytes(16)))
            a.gets(source, Own(KEY_OF_NOBODY, b"boot", "x").prove(sessions.TELL, a.sealed._own.salt))
            forged = bytearray(other.prove(sessions.TELL, a.sealed._own.salt))
            forged[-1] ^= 1
            a.gets(source, bytes(forged))
        assert len(tap.under_way) == sealing.ASKS
        assert a.refusals.forged == sealing.DERIVATIONS
        assert a.refusals.crowded == 2000 - sealing.DERIVATIONS  # knocks, which are asked as data is, and proofs
        assert a.refusals.stranger == 1000
        assert a.refusals.other_key == 1000
        assert len(a.sealed._asked) <= sealing.ASKS + sealing.ASKS_OF_PEER * len(AT)
        assert a.sealed.sessions == 1
        b = await tap.start("b")  # a peer of the configuration is asked all the same
        b.says(b"lost", "a")
        tap.deliver()
        assert b.proved == [a.address]
        tap.under_way.clear()
        for _ in range(100):  # somebody pretends to be where b is
            a.gets(b.address, Own(tap.ring.sealing, os.urandom(4), "b").prove(sessions.KNOCK, bytes(16)))
        assert len(tap.under_way) < sealing.ASKS_OF_PEER

    run(test)


KEY_OF_NOBODY = Key.new()


def test_lists_of_receivers_are_bounded() -> None:
    async def test(tap: Tap) -> None:
        a, _, _ = await tap.acquainted()
        for number in range(3 * sealing.MOST_LISTS):
            a.sealed.send(tuple([AT["b"]] * (number % 7) + [("10.9.9.9", number)]), b"\xc1crc." + a.boot)
        assert len(a.sealed._lists) <= sealing.MOST_LISTS

    run(test)


# --- keys -------------------------------------------------------------------------------------------------------------


def test_keys_are_changed_in_three_steps_and_nothing_is_lost() -> None:
    async def test(tap: Tap) -> None:
        a, b, c = await tap.acquainted()
        old, new = tap.ring.sealing, Key.new("chacha20-poly1305")
        said: list[bytes] = []
        added = tap.ring.add(new)
        for ring in (added, added.use(str(new)), added.use(str(new)).drop(str(old))):
            for end in (a, b, c):
                end.sealed.use(ring)
                said.append(b"%d" % len(said))
                a.says(said[-1], "b", "c")
                tap.deliver()
        assert b.words() == c.words() == said
        assert a.sealed.sealed_with == {new.id: 2}
        assert (a.refusals.total, b.refusals.total, c.refusals.total) == (0, 0, 0)

    run(test)


def test_who_changes_at_the_same_moment_is_still_heard() -> None:
    async def test(tap: Tap) -> None:
        a, b, c = await tap.acquainted()
        ring = tap.ring.add(Key.new())
        for end in (a, b, c):
            end.sealed.use(ring)
        for end in (a, b, c):
            end.sealed.use(ring.use(str(ring.keys[1])))  # all before one of them has heard of another's new session
        a.says(b"one", "b", "c")
        tap.deliver()
        assert b.words() == c.words() == [b"one"]

    run(test)


def test_who_does_not_get_the_new_key_is_out() -> None:
    async def test(tap: Tap) -> None:
        a, b, c = await tap.acquainted()
        old, new = tap.ring.sealing, Key.new()
        added = tap.ring.add(new)
        for ring in (added, added.use(str(new)), added.use(str(new)).drop(str(old))):
            for end in (a, b):
                end.sealed.use(ring)
            tap.deliver()
        a.says(b"without c", "b", "c")
        c.says(b"I am here", "a", "b")
        tap.deliver()
        c.says(b"hello?", "a", "b")
        tap.deliver()
        assert (a.words(), b.words(), c.words()) == ([], [b"without c"], [])
        assert a.refusals.other_key >= 2
        assert a.sealed.place_at(c.address) is None

    run(test)


# --- an attacker ------------------------------------------------------------------------------------------------------


def replay(tap: Tap) -> None:
    """Everything that was ever sent comes again, to whom it was sent, and what the receivers answer goes nowhere."""
    for seen in list(tap.recorded):
        tap.hand_on(seen)
    tap.under_way.clear()


def nonces_used_twice(tap: Tap) -> list[tuple[bytes, int]]:
    """Pairs of salt and number that stand on different packets: a stream of the cipher would be used twice."""
    found: dict[tuple[bytes, int], bytes] = {}
    twice = []
    for seen in tap.recorded:
        _, _, salt, number, _ = DATA_HEAD.unpack_from(seen.data)
        if found.setdefault((salt, number), seen.data) != seen.data:
            twice.append((salt, number))
    return twice


class Attack:
    """Everything that can be done with recorded packets; ``wrong`` says what came of it."""

    def __init__(self, tap: Tap) -> None:
        self.tap = tap
        self.wrong: list[str] = []

    async def run(self) -> list[str]:
        tap = self.tap
        a, b, c = await tap.acquainted()
        for number in range(8):
            for end, to in ((a, "b"), (b, "a"), (a, "bc"), (c, "ab")):
                end.says(f"{end.place} to {to} {number}".encode(), *to)
            tap.deliver()
        self.check("at first", a, b, c)
        replay(tap)
        self.check("replayed", a, b, c)
        self.bend()
        self.check("bent, cut and mixed", a, b, c)
        for seen in list(tap.recorded):
            for place, end in tap.ends.items():
                if seen.to != AT[place]:
                    end.gets(seen.source, seen.data)
                for source in (*AT.values(), ("10.6.6.6", 6)):
                    if source != seen.source:
                        end.gets(source, seen.data)
            tap.under_way.clear()
        self.check("redirected", a, b, c)
        self.intercept(a, b, c)
        await self.come_back()
        self.change_keys()
        if twice := nonces_used_twice(tap):
            self.wrong.append(f"{len(twice)} nonces were used twice")
        return self.wrong

    def check(self, when: str, *ends: End) -> None:
        """Each word once, at those to whom it was said, from where its sender is."""
        for end in ends:
            for (source, word), count in Counter(end.heard).items():
                sender, _, to, *_ = [*word.decode(errors="replace").split(" "), "", ""]
                if sender not in AT:
                    self.wrong.append(f"{when}: {end.place} has heard {word!r}, which nobody said to it")
                    continue
                if count > 1:
                    self.wrong.append(f"{when}: {end.place} has heard {word!r} {count} times")
                if end.place not in to:
                    self.wrong.append(f"{when}: {end.place} has heard {word!r}, which was not for it")
                if source != AT[sender]:
                    self.wrong.append(f"{when}: {end.place} has heard {word!r} from {source}")
            for place, address in AT.items():
                if end.sealed.place_at(address) not in (None, place):
                    self.wrong.append(f"{when}: {end.place} takes {end.sealed.place_at(address)} to be where {place} is")

    def bend(self) -> None:
        tap, random = self.tap, Random(7)
        data = [seen for seen in tap.recorded if seen.data[0] == SEALED]
        for seen in random.sample(tap.recorded, 40):
            other = random.choice(data).data
            for _ in range(12):
                at = random.randrange(len(seen.data))
                bent = bytearray(seen.data)
                bent[at] ^= 1 << random.randrange(8)
                for forged in (bytes(bent), seen.data[:at], seen.data[:at] + other[at:], other[:30] + seen.data[30:]):
                    if forged not in (each.data for each in data):
                        tap.hand_on(Seen(seen.source, seen.to, forged))
        tap.under_way.clear()

    def intercept(self, a: End, b: End, c: End) -> None:
        """Fresh packets that nobody has got yet: given to somebody else, or from somewhere else."""
        tap = self.tap
        a.says(b"a to b intercepted", "b")
        (seen,) = tap.under_way
        tap.under_way.clear()
        c.gets(seen.source, seen.data)
        b.gets(AT["c"], seen.data)
        b.gets(("10.6.6.6", 6), seen.data)
        tap.under_way.clear()
        number, salt = seen.data[21:29], seen.data[5:21]
        b.gets(seen.source, seen.data[:21] + (int.from_bytes(number) + 1).to_bytes(8) + seen.data[29:])
        b.gets(seen.source, seen.data[:5] + c.sealed._own.salt + seen.data[21:])
        tell = a.sealed._own.prove(sessions.TELL, b.sealed._own.salt)
        b.gets(AT["c"], tell)  # a's proof, as if it came from where c is
        assert salt == a.sealed._own.salt
        tap.hand_on(seen)
        self.check("intercepted", a, b, c)
        c.says(b"c to b stamped", "b", boot=b"else")
        tap.deliver()
        if b"c to b stamped" in b.words():
            self.wrong.append("b has heard a frame of another boot than its session's")

    async def come_back(self) -> None:
        """A process that comes back gets everything that the one before it was sent, then everything again once it is known."""
        tap = self.tap
        dead = tap.ends["a"].sealed._own.salt
        a, b = await tap.start("a"), await tap.start("b")
        replay(tap)
        if dead in b.sealed._sessions or a.heard or b.heard:
            self.wrong.append("a process that came back believes what was recorded before")
        tap.acquaint()
        replay(tap)
        if dead in b.sealed._sessions or a.heard or b.heard:
            self.wrong.append("a process that came back believes what was recorded before, once it is known")
        a.says(b"a to b anew", "b")
        tap.deliver()
        replay(tap)
        self.check("come back", a, b)
        if b.words() != [b"a to b anew"]:
            self.wrong.append(f"b has heard {b.words()} after it came back")

    def change_keys(self) -> None:
        """Another key: what was sealed with the old one does not count any more, also when it comes back."""
        tap = self.tap
        a, b, c = (tap.ends[place] for place in "abc")
        old, new = tap.ring.sealing, Key.new()
        both = tap.ring.add(new)
        a.sealed.use(both)
        c.sealed.use(both.use(str(new)))
        tap.deliver()
        a.sealed._begin_session()  # still with the old key, and it tells c, whose session is a new one
        tap.deliver()
        c.heard.clear()
        a.says(b"a to c under-the-old-key", "c")
        held = list(tap.under_way)
        tap.under_way.clear()
        a.says(b"a to c heard-under-the-old-key", "c")
        tap.deliver()
        c.sealed.use(both.use(str(new)).drop(str(old)))
        for seen in held:
            tap.hand_on(seen)
        if b"a to c under-the-old-key" in c.words():
            self.wrong.append("c takes what is sealed with a key that was dropped")
        c.sealed.use(both.use(str(new)))
        tap.under_way.clear()
        replay(tap)
        self.check("a key that came back", a, b, c)


def attacked() -> list[str]:
    found: list[str] = []

    async def test(tap: Tap) -> None:
        found.extend(await Attack(tap).run())

    run(test)
    return found


def test_an_attacker_changes_nothing() -> None:
    assert attacked() == []


def test_any_bytes_are_refused_and_counted() -> None:
    """Also those that begin as packets of the group do."""

    async def test(tap: Tap) -> None:
        a, b, _ = await tap.acquainted()
        key, salts = tap.ring.sealing.id, st.sampled_from([a.sealed._own.salt, b.sealed._own.salt, bytes(16)])
        numbers = st.integers(0, 100).map(lambda number: number.to_bytes(8)) | st.binary(min_size=8, max_size=8)
        first = st.sampled_from([bytes((SEALED,)), bytes((PROOF,)), b"\xc1", b""])
        kind = st.sampled_from([b"\0", b"\1", b"\2", b"\x01" + b.boot])
        places = st.sampled_from([b"\1a" + bytes(16), b"\1a" + bytes(15)])
        rest = [salts | st.binary(max_size=40), places | st.binary(max_size=90)]
        parts = [first, st.just(key) | st.binary(max_size=4), salts, numbers, kind, *rest]
        sources = st.sampled_from([*AT.values(), ("10.6.6.6", 6)])
        made = st.tuples(*parts).map(b"".join) | st.binary(max_size=200)

        @given(source=sources, data=made)
        def try_it(source: Address, data: bytes) -> None:
            before = b.refusals.total
            sent = len(tap.under_way)
            b.gets(source, data)
            assert b.refusals.total == before + 1 or len(tap.under_way) == sent + 1
            assert b.heard == []
            assert b.sealed.sessions == 3
            tap.under_way.clear()

        try_it()

    run(test)


def _still_known(self: Sealed, ring: Keyring) -> None:
    """A mutant: the old keys stay."""
    self._keys |= {key.id: key for key in ring.keys}


def _same_session(self: Sealed, *, forgetful: bool = False) -> None:
    """A mutant: the numbers begin anew, and the salt stays."""
    self._own._number = 0


_open, _begin_session = Session.open, Sealed._begin_session


def _open_anything(self: Session, number: int, head: bytes, sealed: bytes) -> bytes:
    """A mutant: the tag is not looked at."""
    opened = _open(self, number, head, sealed)
    return opened if opened is not None else b"\xc1crc." + self.boot + bytes(sealed)


def _never_forgetful(self: Sealed, *, forgetful: bool = False) -> None:
    """A mutant: an answer to the salt before proves a session also after its window was forgotten."""
    _begin_session(self)


class _Chance:
    """A mutant: who comes back draws what it drew before."""

    def __init__(self) -> None:
        self.boots = 0

    def __call__(self, size: int) -> bytes:
        self.boots += size == 4
        return (self.boots % 3 if size == 4 else 0).to_bytes(size)


MUTANTS: dict[str, tuple[object, str, object]] = {
    "no window": (Session, "is_new", lambda self, number: True),
    "the window never moves": (Session, "took", lambda self, number: None),
    "receivers are not looked at": (sealing, "_is_named", lambda boot, head: True),
    "an old key stays good": (Sealed, "use", _still_known),
    "the same nonces after the numbers begin anew": (Sealed, "_begin_session", _same_session),
    "the same salt after a restart": (os, "urandom", _Chance()),
    "what does not open counts": (Session, "open", _open_anything),
    "what was forgotten can be proved again": (Sealed, "_begin_session", _never_forgetful),
    "a salt that was answered stays good": (
        Sealed,
        "_answerable",
        property(lambda self: _Everything(), lambda self, value: None),
    ),
    "the address of a session does not matter": (Session, "address", property(lambda self: None, lambda self, value: None)),
    "places are not looked at": (Sealed, "_places", property(lambda self: {}, lambda self, value: None)),
    "the frame's boot is not looked at": (sealing, "_is_of", lambda frame, boot: True),
}


class _Everything:
    def __contains__(self, salt: object) -> bool:
        return True


@pytest.mark.parametrize("name", MUTANTS)
def test_every_rule_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, what, instead = MUTANTS[name]
    monkeypatch.setattr(where, what, instead, raising=False)
    assert attacked()
