"""Re-running a document's experiments: its claims, each measured by simulations and judged by a stated rule.

``claims`` is the frame (what a claim is, how sweeps run as Spark tasks); ``page`` writes results with their figures;
``baselines`` has the protocols that a document compares itself with, ``runs`` what makes scenarios, ``observe`` looks into runs.
There is one package a document: ``sequencer`` (seed 004), ``newtop`` (seed 001, of which ``membership`` is one chapter),
``rtcast`` (seed 003), ``mailbox`` (seed 000) and ``dedos`` (seed 002). They may import what ``lab`` may, and not each other.
Start with ``claims``, then ``sequencer``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from plainchant.core.model import UsageError

from .claims import Claim

NAMES = ("sequencer", "newtop", "membership", "rtcast", "mailbox", "dedos")
"""What can be reproduced: documents, by the name of their protocol, and newtop's membership by itself."""


def claims_of(name: str, numbers: Sequence[int] = ()) -> tuple[Claim, ...]:
    """The claims of a document, all or those of these numbers, in its order."""
    if name not in NAMES:
        raise UsageError(f"there is no {name!r} to reproduce; there are: {', '.join(NAMES)}")
    claims: tuple[Claim, ...] = importlib.import_module(f".{name}", __package__).CLAIMS
    known = [claim.number for claim in claims]
    for number in numbers:
        if number not in known:
            raise UsageError(f"{name} has no claim {number}; its claims are {min(known)} to {max(known)}")
    return tuple(claim for claim in claims if not numbers or claim.number in numbers)
