"""Properties of a trace that is still growing: what can be said before the end, as soon as it can be said.

Theory of operation
-------------------
:class:`Growing` is fed the facts of one run, in any order and any portions; a history's facts count in the order of their
index, and what comes early waits. Each property has a checker with a method for each kind of event (``delivery``, ``order``,
``views``, ``timing``). A checker says *violated* only if the reference verifier says so of every way in which the run can go on;
what depends on the future is a *condition* (``identical`` speaks of processes that do not crash), and a violation whose
condition fails later is withdrawn. What only the end decides is *open*: ``OPEN`` says for each property what that is.

**Rounds.** Somebody reads the spools of all processes, one after the other; in one round he may see a delivery and not yet its
send. What was on disk when a round ended is read in the next one. So a checker that needs to know that something did *not*
happen waits for two ends of rounds (:meth:`Growing.tick`).

**Memory is bounded.** Of a message that everybody has passed only intervals of numbers are kept; letters are forgotten then,
beyond the last few thousand, and the oldest are if there are too many. What comes for a message that is forgotten is counted
as ``late``: only the end decides about it. Views, pairs of views and signatures are kept up to a number.

It imports ``model`` and the trace's own modules, no Spark: a state is a Python object that can be pickled, which is what the
stream does with it. Start reading with ``run``.
"""

from __future__ import annotations

from .book import OPEN, Finding
from .run import Growing, Limits

__all__ = ["OPEN", "Finding", "Growing", "Limits"]
