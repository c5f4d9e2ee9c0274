"""What both networks compute alike: links, the effect of faults on them, and draws."""

from __future__ import annotations

from random import Random

import pytest

from plainchant.core.model import MS, Duration
from plainchant.scenario.links import damaged, draw_delay, effect_of, link_between, transmission_time, without_rates
from plainchant.scenario.model import Delay, Fault, LinkOverride, Network

CUT = Fault("cut", source="a", target="b")
CLOG = Fault("clog", target="b", delay=Duration(3 * MS))
LOSS = Fault("loss", rate=0.5)
PARTS = Fault("partition", parts=(("a", "c"), ("b",)))


@pytest.mark.parametrize(
    ("faults", "source", "target", "effect"),
    [
        ((), "a", "b", (False, 0, 0.0)),
        ((CUT,), "a", "b", (True, 0, 0.0)),
        ((CUT,), "b", "a", (False, 0, 0.0)),
        ((CLOG, CLOG), "c", "b", (False, 6 * MS, 0.0)),
        ((LOSS, LOSS), "b", "c", (False, 0, 0.75)),
        ((PARTS,), "a", "c", (False, 0, 0.0)),
        ((PARTS,), "a", "b", (True, 0, 0.0)),
        ((PARTS,), "d", "e", (True, 0, 0.0)),
        ((PARTS,), "d", "d", (False, 0, 0.0)),
        ((Fault("lan", lan=1), LOSS), "a", "b", (True, 0, 0.5)),
    ],
)
def test_faults_on_a_link_add_up(faults: tuple[Fault, ...], source: str, target: str, effect: tuple[bool, int, float]) -> None:
    assert effect_of(faults, source, target) == effect


def test_the_last_override_that_matches_is_the_link() -> None:
    from_a, to_b = LinkOverride(source="a", loss=0.1), LinkOverride(target="b", loss=0.2)
    network = Network(link=(from_a, to_b))
    assert [link_between(network, *pair) for pair in ("ab", "ac", "cb", "cd")] == [to_b, from_a, to_b, network]
    assert without_rates(to_b) == LinkOverride(target="b")


def test_a_short_frame_takes_as_long_as_the_shortest_that_the_medium_sends() -> None:
    network = Network(header=20, minimum_frame=100)
    assert [transmission_time(network, size, 1_000_000) for size in (0, 80, 105)] == [800_000, 800_000, 1_000_000]


def test_delays_are_drawn_within_their_bounds_and_constant_ones_are_not_drawn() -> None:
    random = Random(1)
    before = random.getstate()
    assert draw_delay(Delay(low=Duration(5)), random) == 5
    assert random.getstate() == before
    uniform = Delay(kind="uniform", low=Duration(5), high=Duration(7))
    assert {draw_delay(uniform, random) for _ in range(100)} == {5, 6, 7}
    exponential = Delay(kind="exponential", low=Duration(5), high=Duration(100))
    drawn = [draw_delay(exponential, random) for _ in range(1000)]
    assert min(drawn) >= 5
    assert 80 < sum(drawn) / len(drawn) < 130


@pytest.mark.parametrize("data", [b"\0", b"some bytes of a packet"])
def test_damage_flips_a_few_bits_and_always_one(data: bytes) -> None:
    random = Random(1)
    for _ in range(50):
        flipped = int.from_bytes(damaged(data, random), "big") ^ int.from_bytes(data, "big")
        assert 1 <= flipped.bit_count() <= 3
