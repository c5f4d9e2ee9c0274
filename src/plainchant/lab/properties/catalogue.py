"""The table of properties: for each, its definition, its reference check, its check on a growing trace and its proof.
(``trace.properties`` has the names, with one sentence each, for code that only needs to know which properties there are.)

- *definition*: a row of ``docs/properties.md``; the docstring of the reference check says the same and how its open points were
  decided;
- *reference*: a function that looks at one run, in plain Python, slow and obviously correct; what it says is the truth;
- *growing*: a class that follows a trace while it is written and reports a violation as soon as no continuation of the run can
  excuse it. Three properties about the order of two processes share one class;
- *proof*: a function that shows from certificates, in a fraction of the time, that a property holds. It never says that one is
  violated; then the reference check decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from .blocks import merged, offices, queue, replicas, requests
from .certificates.prover import Prover
from .delivery import growing as delivery_growing
from .delivery import proof as delivery_proof
from .delivery import reference as delivery
from .order import growing as order_growing
from .order import proof as order_proof
from .order import reference as order
from .report import Report
from .timing import growing as timing_growing
from .timing import progress as timing_progress
from .timing import progress_growing, progress_proof
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
    "unanimity": Property(delivery.unanimity, delivery_proof.unanimity, delivery_growing.Unanimity, _UNKNOWN),
    "deadline": Property(timing.deadline, timing_proof.deadline, timing_growing.Deadline, _NEVER_COME),
    "bounded": Property(timing.bounded, timing_proof.bounded, timing_growing.Bounded, "how long crashes are not detected"),
    "progress": Property(timing_progress.progress, progress_proof.progress, progress_growing.Progress, _ANSWERS),
    "prompt": Property(order.prompt, order_proof.prompt),
    "replica-agreement": Property(replicas.replica_agreement, replicas.without_blocks),
    "dictionary-merge": Property(merged.dictionary_merge, replicas.without_blocks),
    "counter-sum": Property(merged.counter_sum, replicas.without_blocks),
    "lock-exclusion": Property(offices.lock_exclusion, replicas.without_blocks),
    "one-leader": Property(offices.one_leader, replicas.without_blocks),
    "jobs-once": Property(queue.jobs_once, replicas.without_blocks),
    "answers": Property(requests.answers, replicas.without_blocks),
}


def definition(name: str) -> str:
    """Where a property is defined.

    >>> definition("fifo")
    'docs/properties.md#fifo'
    """
    return f"docs/properties.md#{name}"
