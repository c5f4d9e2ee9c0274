"""Runs on common memory, without views: both verifiers say the same of them, and clean ones are proved by certificates alone."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import pyarrow as pa
import pytest

from plainchant.lab.properties import PROPERTIES, verify
from plainchant.lab.properties.certificates.evidence import Evidence
from plainchant.lab.properties.certificates.unit import Unit
from plainchant.lab.properties.facts import Columns, Run
from plainchant.lab.properties.proof import Proof, prove
from plainchant.lab.verify.check import check
from plainchant.trace.validation import validate

from ..agreement import check_in_pieces, differences, run_differences
from ..layouts import ORDER
from ..mailbox_traces import PROMISES, mailbox_run
from ..mutations import CAUGHT, HARMLESS, mutated
from ..random_traces import RandomRun, table

FEATURES = ("joins", "leaves", "crashes", "faulty")
OPTIONS = [dict(zip(FEATURES, chosen, strict=True)) for chosen in product((False, True), repeat=len(FEATURES))]
LARGE = 12_500
"""So many messages make 100,000 events."""


@pytest.fixture(scope="module")
def runs() -> list[RandomRun]:
    return [mailbox_run(seed, f"m{seed:03d}", **OPTIONS[seed % len(OPTIONS)]) for seed in range(64)]


@pytest.fixture(scope="module")
def spoilt(runs: list[RandomRun]) -> pa.Table:
    """Each of them, mutated in two ways."""
    found = []
    mutations = CAUGHT + HARMLESS
    for number, run in enumerate(runs):
        for turn in range(2):
            mutation = mutations[(2 * number + turn) % len(mutations)]
            name = f"{mutation.__name__}/{run.name}"
            changed = mutated(Random(name), run, name, mutation)
            found += [changed] if changed is not None else []
    return table(found)


def test_clean_runs_keep_what_they_promise(runs: list[RandomRun]) -> None:
    rows = table(runs)
    assert validate(rows) == []
    found = verify(rows)
    assert [str(violation) for violation in found.violations] == []
    # Nothing is rejected for good here; everything else has cases.
    assert {name for name in PROMISES if not found.properties[name].cases} == {"unanimity"}


@pytest.mark.parametrize("properties", [None, list(PROPERTIES)], ids=["promised", "asked"])
def test_both_verifiers_agree(runs: list[RandomRun], spoilt: pa.Table, properties: list[str] | None) -> None:
    for rows in (table(runs), spoilt):
        reference = verify(rows, properties)
        if differences(check(rows, properties).to_json(), reference.to_json()):
            assert run_differences(rows, properties) == {}
        torn = check_in_pieces(rows.sort_by(ORDER), 53, properties)
        assert differences(torn.to_json(), reference.to_json()) == []


def test_mutated_runs_are_caught(spoilt: pa.Table) -> None:
    assert validate(spoilt) == []
    caught = Counter(violation.property for violation in verify(spoilt).violations)
    assert {name for name in PROMISES if not caught[name]} == set()


def proof_of(rows: pa.Table) -> Proof:
    unit = Unit(rows)
    facts = Run(unit.runs[0], Columns(unit.skeleton), unit.skeleton_rows(0))
    return prove(Evidence(facts, [unit.slice(0)]), None)


@pytest.mark.parametrize("options", [{}, {"crashes": True}, {"leaves": True}, {"faulty": True}], ids=str)
def test_a_long_run_is_proved_by_its_certificates(options: dict[str, bool]) -> None:
    rows = table([mailbox_run(1, "long", messages=LARGE if not options else LARGE // 10, **options)])
    proof = proof_of(rows)
    assert not proof.suspect
    assert proof.doubtful == []
    assert set(proof.cases) == set(PROMISES)
    if not options:
        assert rows.num_rows > 100_000
        assert proof.cases["agreement"] == (1, 6 * LARGE)


def test_a_timing_fault_excuses_its_process_from_bounds_and_nobody_else() -> None:
    run = mailbox_run(3, "slow", faulty=True, messages=40)
    kept = {name: [e for e in events if e["kind"] != "fault"] for name, events in run.histories.items()}
    assert check(table([run])).properties["bounded"].violations == 0
    assert check(table([RandomRun("unmarked", kept, run.promises)])).properties["bounded"].violations > 0
