"""Runs are as they were: every shipped scenario, and a seed in fifty of each sweep. All of them: ``python -m tests.digests``."""

from __future__ import annotations

import tomllib

import pytest

from tests.digests.digests import PATH, SWEEPS, cases, digest

RECORD = tomllib.loads(PATH.read_text())
CHOSEN = [case for case in cases() if case.startswith("scenario/") or not int(case.rpartition("/")[2]) % 50]


def test_everything_is_on_record() -> None:
    assert sorted(RECORD) == sorted(cases())
    assert {case.partition("/")[0] for case in CHOSEN} == {"scenario", *SWEEPS}


@pytest.mark.parametrize("case", CHOSEN)
def test_a_run_is_as_it_was(case: str) -> None:
    assert digest(case) == RECORD[case], "write it anew with `python -m tests.digests --write` if that is what you want"


def test_another_seed_has_another_digest() -> None:
    assert digest("sequencer/1") != digest("sequencer/2")
