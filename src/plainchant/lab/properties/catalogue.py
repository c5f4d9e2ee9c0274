"""The table of properties: for each, its definition, its reference check, its check on a growing trace and its proof.
(``trace.properties`` has the names, with one sentence each, for code that only needs to know which properties there are.)

- *definition*: a row of ``docs/properties.md``; the docstring of the reference check says the same and how its open points were
  decided;
- *reference*: a function that looks at one run, in plain Python, slow and obviously correct; what it says is the truth;
- *growing*: a class that follows a trace while it is written and reports a violation as soon as no continuation of the run can
  excuse it. Three properties about the order of two processes share one class;
- *proof*: a function that shows from certificates, in a fraction of the time, that a property holds. It never says that one is
  violated; then the reference check decides.
- *question*: a function that says in which rows of a large run the reference check has to look, where the proof leaves a doubt.
  Properties without one are narrowed down to doubtful messages (``narrowing.narrow``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from .blocks import merged, offices, queue, replicas, requests
from .certificates.prover import Prover
from .certificates.wanted import Question
from .delivery import growing as delivery_growing
from .delivery import proof as delivery_proof
from .delivery import reference as delivery
from .order import growing as order_growing
from .order import proof as order_proof
from .order import reference as order
from .report import Report
from .timing import growing as timing_growing
from .timing import in_doubt, progress_growing, progress_proof
from .timing import progress as timing_progress
from .timing import proof as timing_proof
from .timing import reference as timing
from .views import growing as views_growing
from .views import proof as views_proof
from .views import reference as views

ALL_OF_IT: Final = "all of it"
_SENT: Final = "that a message was sent at all, unless its sender has ended"
_HOLES: Final = "holes where a sender is in no view, or has parted from who lacks the message"
_UNKNOWN: Final = "what is rejected in groups of whose members nothing tells yet"
_NEVER_COME: Final = "messages that are owed and never come, where who owes them has left or parted since"
_UNDETECTED: Final = "how long crashes are not detected"
_ANSWERS: Final = (
    "answers to requests, and messages in groups without views, before later deliveries, or of processes with timing faults"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Property:
    """The checks of one property."""

    reference: Callable[[Report], None]
    proof: Callable[[Prover], int] | None  # None: certificates keep every row that the reference check needs
    growing: type[object] | None = None  # None: only the end of the run decides
    open: str = ALL_OF_IT  # what of the property only the end of the run decides, as the page of ``plainchant watch`` says it
    question: Callable[[Prover], Question | None] | None = None  # it returns None where times of rows (``untimed``) tell more


def _of_blocks(reference: Callable[[Report], None], told: str | None = None) -> Property:
    return Property(reference, replicas.without_blocks, question=replicas.asked_of(reference, told=told))


CATALOGUE: Final[Mapping[str, Property]] = {
    "integrity": Property(delivery.integrity, delivery_proof.integrity, delivery_growing.Integrity, _SENT),
    "fifo": Property(order.fifo, order_proof.fifo, order_growing.Fifo, _HOLES),
    "causal": Property(order.causal, order_proof.causal),
    "identical": Property(order.identical, order_proof.identical, order_growing.Orders, ""),
    "total": Property(order.total, order_proof.total, order_growing.Orders, "that it is causal"),
    "acyclic": Property(order.acyclic, order_proof.acyclic),
    "self-delivery": Property(delivery.self_delivery, delivery_proof.self_delivery),
    "validity": Property(delivery.validity, delivery_proof.validity),
    "agreement": Property(delivery.agreement, delivery_proof.agreement),
    "uniform": Property(delivery.uniform, delivery_proof.uniform, order_growing.Orders, "that all correct members deliver"),
    "view-order": Property(views.view_order, None, views_growing.ViewOrder, "that correct processes end with the same views"),
    "view-atomicity": Property(views.view_atomicity, views_proof.view_atomicity, views_growing.ViewAtomicity, ""),
    "view-exclusion": Property(views.view_exclusion, None),
    "convergence": Property(views.convergence, None),
    "sender-in-view": Property(views.sender_in_view, views_proof.sender_in_view, views_growing.SenderInView, ""),
    "same-view": Property(views.same_view, views_proof.same_view, views_growing.SameView, ""),
    "disjoint-views": Property(views.disjoint_views, None, views_growing.DisjointViews, ""),
    "unanimity": Property(
        delivery.unanimity, delivery_proof.unanimity, delivery_growing.Unanimity, _UNKNOWN, delivery_proof.rejected
    ),
    "deadline": Property(timing.deadline, timing_proof.deadline, timing_growing.Deadline, _NEVER_COME, in_doubt.deadline),
    "bounded": Property(timing.bounded, timing_proof.bounded, timing_growing.Bounded, _UNDETECTED, in_doubt.bounded),
    "progress": Property(
        timing_progress.progress, progress_proof.progress, progress_growing.Progress, _ANSWERS, progress_proof.in_doubt
    ),
    "prompt": Property(order.prompt, order_proof.prompt, question=order_proof.waiting),
    "replica-agreement": _of_blocks(replicas.replica_agreement, "apply"),
    "dictionary-merge": _of_blocks(merged.dictionary_merge),
    "counter-sum": _of_blocks(merged.counter_sum),
    "lock-exclusion": _of_blocks(offices.lock_exclusion),
    "one-leader": _of_blocks(offices.one_leader),
    "jobs-once": _of_blocks(queue.jobs_once),
    "answers": _of_blocks(requests.answers, "asked"),
}


def definition(name: str) -> str:
    """Where a property is defined.

    >>> definition("fifo")
    'docs/properties.md#fifo'
    """
    return f"docs/properties.md#{name}"
