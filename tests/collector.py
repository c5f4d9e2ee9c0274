"""The garbage collector, told to look seldom: simulated runs make many objects and hardly any cycles.

With Python's own thresholds a sweep spends a fifth of its time on looking through objects that live as long as the run.
"""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """What exists now is left alone, and what comes is looked through after every 100,000 objects that stay."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
