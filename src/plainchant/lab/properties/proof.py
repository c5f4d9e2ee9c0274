"""Stage 2 of verification: what the certificates of a run prove.

For each property there is a *sufficient* condition on the certificates, written for what correct runs look like, and a way to
count the cases that the reference check would have examined. Where the condition holds, the property holds, and the count is
exact. Where it does not, the property is *doubtful*, and the reference check decides on the run's rows: only it says "violated",
so every violation has its sentence and its events. Properties of views alone are decided here, by the reference checks on the
skeleton, which has all they look at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Sequence
from dataclasses import field
from typing import Final

from ...trace.properties import SPEAK_OF_END
from .catalogue import CATALOGUE
from .certificates.evidence import Doubtful, Evidence, Messages
from .certificates.prover import Prover
from .certificates.untimed import Untimed
from .certificates.wanted import Question
from .reference import check_run, names_for, reports_without_case
from .report import Report


@dataclasses.dataclass(slots=True)
class Proof:
    """What the certificates say of a run."""

    suspect: bool = False  # something may be malformed: nothing was judged
    cases: dict[str, tuple[int, int]] = field(default_factory=dict)  # of properties that hold: (1 if checked, cases)
    decided: list[tuple[Report, int]] = field(default_factory=list)  # properties decided here, either way
    doubtful: list[str] = field(default_factory=list)
    unresolved: list[Messages] = field(default_factory=list)  # ``integrity`` holds if their digests agree
    untimed: Untimed | None = None  # ``deadline`` holds if deliveries were in time, which certificates cannot tell
    questions: dict[str, Question] = field(default_factory=dict)  # properties that a few rows decide


ON_SKELETON: Final = frozenset(name for name, checks in CATALOGUE.items() if checks.proof is None)
"""Properties that the reference check decides on the skeleton."""


_BY_CLOCKS: Final = frozenset({"causal", "prompt"})


def prove(
    evidence: Evidence, properties: Sequence[str] | None, narrow: Callable[[Sequence[str]], Container[str]] | None = None
) -> Proof:
    """Proves what can be proved of what the run is to be checked for (``reference.verify`` explains ``properties``).

    ``narrow`` is given what quick proofs leave doubtful, and says what of it is decided elsewhere. Slow proofs try the rest; they
    try first where causes alone are doubtful. What they leave doubtful becomes a question to a few rows where that can be."""
    if evidence.suspect:
        return Proof(suspect=True)
    proof = Proof()
    run = evidence.facts
    until_end = properties is not None or run.drained
    reported = reports_without_case(run, properties)
    proof.decided = check_run(run, properties, ON_SKELETON)
    prover = Prover(evidence, until_end, quick=narrow is not None)
    _try(prover, proof, [name for name in names_for(run, properties) if name not in ON_SKELETON], reported)
    if narrow is not None and proof.doubtful:
        slow = Prover(evidence, until_end)
        slow.untimed = prover.untimed
        prover = slow
        causes_alone = _BY_CLOCKS.issuperset(proof.doubtful)  # as in every run in causal order: clocks will do
        if causes_alone:
            doubtful, proof.doubtful = proof.doubtful, []
            _try(prover, proof, doubtful, reported)
        elsewhere = narrow(proof.doubtful) if proof.doubtful else ()
        proof.doubtful = [name for name in proof.doubtful if name not in elsewhere]
        if not causes_alone:
            left, proof.doubtful = proof.doubtful, []
            _try(prover, proof, left, reported)
        _ask(prover, proof)
    if "integrity" in proof.cases:
        proof.unresolved = evidence.unresolved
    if prover.untimed is not None and "deadline" not in proof.doubtful:
        proof.cases.pop("deadline", None)
        proof.untimed = dataclasses.replace(prover.untimed, events=evidence.rows, is_held=reported)
    return proof


def _try(prover: Prover, proof: Proof, names: Sequence[str], reported: bool) -> None:
    for name in names:
        find = CATALOGUE[name].proof
        assert find is not None
        if not prover.until_end and name in SPEAK_OF_END:
            if reported:
                proof.cases[name] = 0, 0
            continue
        try:
            cases = find(prover)
        except Doubtful:
            proof.doubtful.append(name)
            continue
        if cases or reported:
            proof.cases[name] = 1, cases


def _ask(prover: Prover, proof: Proof) -> None:
    doubtful, proof.doubtful = proof.doubtful, []
    for name in doubtful:
        find = CATALOGUE[name].question
        try:
            asked = find(prover) if find is not None else None
        except Doubtful:
            asked = None
        if asked is not None:
            proof.questions[name] = asked
        elif name != "deadline" or prover.untimed is None:
            proof.doubtful.append(name)
