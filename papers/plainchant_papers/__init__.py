"""The papers that plainchant implements: their claims, measured by simulations and judged by stated rules, and their errata.

Every source document has a folder: ``sequencer`` (paper 004), ``newtop`` (001; ``newtop.membership`` is its chapter 6),
``rtcast`` (003), ``mailbox`` (000) and ``dedos`` (002). A folder holds the table of claims, the modules that measure them,
variants of the engine and baselines to compare with, ``errata.md`` and ``tests``. Papers do not import each other.

The modules beside the folders are what they share: ``claims`` (what a claim is, and how its runs become Spark tasks), ``runs``
(scenarios, and what traces say), ``observe`` (runs scenarios and looks into them), ``page`` (results as files) and ``command``
(``plainchant reproduce``). Start with ``claims``, then ``sequencer``.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Final

from plainchant.core.model import UsageError

from .claims import Claim

NAMES: Final = ("sequencer", "newtop", "membership", "rtcast", "mailbox", "dedos")
"""What can be reproduced: papers, by the name of their protocol, and newtop's membership by itself."""
_CHAPTERS: Final = {"membership": "newtop.membership"}
DOCUMENTS: Final = tuple(name for name in NAMES if name not in _CHAPTERS)
"""Papers alone: together they have every claim once."""


def claims_of(name: str, numbers: Sequence[int] = ()) -> tuple[Claim, ...]:
    """The claims of a paper, all or those of these numbers, in its order."""
    if name not in NAMES:
        raise UsageError(f"there is no {name!r} to reproduce; there are: {', '.join(NAMES)}")
    claims: tuple[Claim, ...] = importlib.import_module(f".{_CHAPTERS.get(name, name)}", __package__).CLAIMS
    known = [claim.number for claim in claims]
    for number in numbers:
        if number not in known:
            raise UsageError(f"{name} has no claim {number}; its claims are {min(known)} to {max(known)}")
    return tuple(claim for claim in claims if not numbers or claim.number in numbers)


def claims_of_all(numbers: Sequence[int] = ()) -> dict[str, tuple[Claim, ...]]:
    """The claims of every paper, all or those of these numbers: a number is one claim's, whatever paper has it."""
    every = {name: claims_of(name) for name in DOCUMENTS}
    known = {claim.number for claims in every.values() for claim in claims}
    for number in numbers:
        if number not in known:
            raise UsageError(f"no document has a claim {number}; their claims are {min(known)} to {max(known)}")
    chosen = {name: tuple(c for c in claims if not numbers or c.number in numbers) for name, claims in every.items()}
    return {name: claims for name, claims in chosen.items() if claims}
