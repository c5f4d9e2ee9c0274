"""Variants: a rule is replaced for the time of a run, and every mistake in naming one is an error."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from plainchant.core.model import UsageError
from plainchant.protocols import variants
from plainchant.protocols.variants import AS_BUILT, Replacement, Variant, Variants


class Counter:
    """Something with rules."""

    def step(self) -> int:
        return 1

    @property
    def limit(self) -> int:
        return 3

    @staticmethod
    def unit() -> str:
        return "step"

    def count(self) -> list[int]:
        return [number * self.step() for number in range(self.limit)]


class Slower(Counter):
    """Inherits the rules."""


VARIANTS = Variants()


@VARIANTS.replaces("double", Counter, "step")
def _double(self: Counter) -> int:
    return 2 * _STEP(self)


_STEP = Counter.step


def _long(self: Counter) -> int:
    return 5


VARIANTS.replaces("long", Counter, "limit")(property(_long))
VARIANTS.replaces("other unit", Counter, "unit")(staticmethod(lambda: "pace"))


def test_a_rule_is_replaced_for_the_time_of_a_run_and_may_call_the_original() -> None:
    with VARIANTS["double"].applied() as calls:
        assert Counter().count() == Slower().count() == [0, 2, 4]
    assert calls["Counter.step"] == 6
    assert Counter().count() == [0, 1, 2]


def test_properties_and_static_methods_are_rules_too() -> None:
    with VARIANTS.together("double", "long", "other unit").applied(must_act=True):
        assert (Counter().count(), Counter().unit()) == ([0, 2, 4, 6, 8], "pace")
    assert (Counter().count(), Counter().unit()) == ([0, 1, 2], "step")


def test_the_original_is_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), VARIANTS["double"].applied(must_act=True):
        raise ZeroDivisionError
    assert Counter().step() == 1


def test_variants_nest() -> None:
    with VARIANTS["long"].applied():
        with VARIANTS["double"].applied():
            assert Counter().count() == [0, 2, 4, 6, 8]
        assert Counter().count() == [0, 1, 2, 3, 4]


def test_a_variant_that_cannot_act_is_an_error() -> None:
    with (
        pytest.raises(UsageError, match=r"'double' cannot act: nothing called Counter\.step"),
        VARIANTS["double"].applied(must_act=True),
    ):
        Counter().unit()


def test_the_empty_name_is_the_protocol_itself() -> None:
    assert VARIANTS[""] is AS_BUILT
    assert VARIANTS.together() == AS_BUILT
    with AS_BUILT.applied(must_act=True) as calls:
        assert Counter().count() == [0, 1, 2]
    assert not calls


@pytest.mark.parametrize(
    ("owner", "attribute", "message"),
    [(Counter, "stride", "does not define stride"), (Slower, "step", "does not define step"), (variants, "apply", "not define")],
)
def test_a_rule_that_does_not_exist_is_refused(owner: type, attribute: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Replacement(owner, attribute, _double)


def test_a_replacement_by_the_original_is_refused() -> None:
    with pytest.raises(UsageError, match="by itself"):
        Replacement(Counter, "step", Counter.step)


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no variant 'triple'; there are: double, long"):
        VARIANTS["triple"]


def test_two_variants_of_one_rule_do_not_go_together() -> None:
    other = Variant("triple", (Replacement(Counter, "step", lambda counter: 3),))
    with pytest.raises(UsageError, match=r"double and triple do not go together: both replace Counter\.step"):
        VARIANTS["double"] + other


def test_a_function_of_a_module_is_replaced_where_it_is_called() -> None:
    with Variant("short", (Replacement(variants, "_counting", lambda by, name, calls: by),)).applied():
        with VARIANTS["double"].applied() as calls:
            assert Counter().step() == 2
        assert not calls


def counted(name: str) -> list[int]:
    with VARIANTS[name].applied(must_act=True):
        return Counter().count()


def test_in_another_process_a_variant_is_found_by_its_name() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(counted, ["", "double"])) == [[0, 1, 2], [0, 2, 4]]
    assert Counter().count() == [0, 1, 2]


def test_no_engine_knows_of_variants() -> None:
    """Only what the explorer needs names them: a case, and the modules that define some."""
    folder = Path(variants.__file__).parent
    importing = {path for path in folder.rglob("*.py") if "variants import" in path.read_text()}
    assert {path.name for path in importing} <= {"exploration.py", "variants.py"}
