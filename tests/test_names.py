"""Names of processes: what they are made of, and what is read from names that came from elsewhere."""

from __future__ import annotations

import pytest

from plainchant.core.names import incarnation_of, is_place, place_of, process_name


@pytest.mark.parametrize("place", ["p3", "n1.c2.p3", "10.0.0.7:7001", "é"])
@pytest.mark.parametrize("incarnation", [0, 1, 12, 10**18])
def test_a_name_reads_as_it_was_made(place: str, incarnation: int) -> None:
    name = process_name(place, incarnation)
    assert (place_of(name), incarnation_of(name)) == (place, incarnation)
    assert is_place(name) == (incarnation == 0)


@pytest.mark.parametrize("forged", ["p#", "p#x", "p#-1", "p#1.5", "p#1#2", "p#" + "9" * 80, "p# 1", "p#²"])
def test_what_is_no_incarnation_number_reads_as_the_first_incarnation(forged: str) -> None:
    assert (place_of(forged), incarnation_of(forged), is_place(forged)) == ("p", 0, False)


def test_the_empty_name_is_harmless() -> None:
    assert (place_of(""), incarnation_of(""), place_of("#"), is_place("")) == ("", 0, "", True)
