"""Digests of what a seed gives: the check that a change of structure is not a change of behaviour.

The same scenario, seed and code give the same trace, byte for byte. :mod:`.digests` runs every shipped scenario and some hundred
seeds of every protocol's sweep, and compares a digest of each with the one that is checked in (``digests.toml``):

- of a run: its trace, its summary, and the verdict;
- of a shipped scenario besides: what ``trace``, ``explain`` and the diagrams say of it.

``python -m tests.digests`` compares them all (some minutes on two cores), ``--write`` writes them anew, ``--only dedos``
chooses. ``make test`` compares the scenarios and a few seeds of each protocol. A change of a protocol moves digests: write them
anew in the same commit, and say so there. A change of structure moves none.
"""
