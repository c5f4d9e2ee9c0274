"""Chapter 6 of paper 001: membership, claims 40 to 47.

Scenarios are those of ``newtop.structures``; variants are in ``newtop.variants``. ``views`` (VC1 to VC3, signatures),
``stability``, ``examples`` (6.3.2, 6.3.3, and twenty members that part and meet) and ``blocking`` measure claims; ``costs`` how
long view changes take, what they cost and what is lost.
"""

from __future__ import annotations

from typing import Final

from ...claims import REMARK, claims_table
from . import blocking, examples, stability, views

CLAIMS: Final = claims_table(
    "001",
    (40, "6.2", "VC1: members that do not suspect each other install the same sequence of views.",
     "Compare the views of all such pairs in runs with crashes, restarts, pauses, cuts and partitions, under all orders; no "
     "difference, no violation of view-order, no run without an end.", views.same_views),
    (41, "6.2", "VC2: who crashes or is disconnected leaves the views of those who do not crash.",
     "Crash members and part the network for good, wait, and look at the last views; holds if they have exactly who lives and "
     "is connected, remark if they have nobody else.", views.who_fails_leaves),
    (42, "6.2", "VC3: members that install the same two consecutive views deliver the same messages between them.",
     "Verify view-atomicity of the runs of claim 40; no violation, cases under every order, and no message in a view without "
     "its sender.", views.same_messages),
    (43, "6.3.1", "Nothing that is stable is ever asked for again.",
     "At every request look into all members: none that counts the asker as a member has forgotten what is asked for; and "
     "some have if they forget what is complete, or the test would show nothing.", stability.nothing_stable),
    (44, "6.3.2", "P_r and P_s fail together: m', which P_s sent after m of P_r, is not delivered where m cannot be.",
     "Run the example; detections, views and deliveries as told, and causal order violated if each counts up to its own last "
     "message.", examples.failed_together),
    (45, "6.3.3", "Views of members that suspect each other become disjoint.",
     "Run the example with five processes, with a partition and with a cut one way; views exactly as told, and twenty members "
     "that part into three come together again.", examples.views_get_disjoint),
    (46, "6.4", "With signatures concurrent views never intersect.",
     "Verify disjoint-views of runs with failures, with signatures as printed and as here; holds if never violated, remark if "
     "as printed only where somebody joins, and as here never.", views.disjoint, REMARK),
    (47, "6.4", "The protocol blocks for less time than one that blocks on every suspicion.",
     "The same runs under both rules; holds if less in sum and never more, on average, after one crash or one cut, remark if "
     "less in sum.", blocking.less_blocking),
)  # fmt: skip
