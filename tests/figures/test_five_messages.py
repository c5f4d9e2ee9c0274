"""The picture of docs/ordering.md is what the protocol does, and shows what the page says of it."""

from __future__ import annotations

import functools

import pytest

from tests.figures.five_messages import ORDERS, OTHER, PICTURE, WATCHED, Run, draw, perform, too_early


@functools.cache
def run_of(order: str) -> Run:
    return perform(order)


def delivered(order: str) -> dict[str, float]:
    return {fate.name: fate.delivered for fate in run_of(order).fates}


def test_the_picture_is_what_the_protocol_does() -> None:
    drawn = draw([run_of(order) for order in ORDERS])
    assert PICTURE.read_text(encoding="utf-8") == drawn, "python -m tests.figures.five_messages draws it anew"


@pytest.mark.parametrize("order", ORDERS)
def test_arrivals_are_the_same_in_every_order(order: str) -> None:
    assert {fate.name: (fate.arrived, fate.block) for fate in run_of(order).fates} == {
        "m1": (13, 1),
        "m2": (5, 2),
        "m3": (4, 1),
        "m4": (8, 2),
        "m5": (16, 1),
    }


def test_only_without_an_order_something_is_too_early() -> None:
    assert {order: too_early(run_of(order)) for order in ORDERS} == {
        "fifo": {"m2"},
        "fast": set(),
        "relative": set(),
        "slow": set(),
        "total": set(),
    }


def test_a_stronger_order_is_never_earlier() -> None:
    for earlier, later in (("fifo", "fast"), ("fast", "relative"), ("relative", "slow"), ("slow", "total")):
        assert all(delivered(earlier)[name] <= delivered(later)[name] for name in delivered(earlier))
        assert delivered(earlier) != delivered(later)


def test_only_total_order_is_the_same_at_both() -> None:
    agree = [order for order in ORDERS if run_of(order).sequences[OTHER] == run_of(order).sequences[WATCHED]]
    assert agree == ["total"]
