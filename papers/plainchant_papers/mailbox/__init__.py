"""Paper 000, mailboxes: hard real-time reliable multicast through replicated mailboxes in shared memory.

``timing`` has the bounds, ``scripted`` runs whose script says how long everything takes, ``explored`` small cases that are
tried in every way. ``theorems``, ``failures``, ``bounds`` and ``groups`` measure the claims. Start with the table below.

In all runs ds = df = dr = 20, dd = dfd = 10, e = 4 and p = 100 µs, unless a claim says otherwise.
"""

from __future__ import annotations

from typing import Final

from ..claims import FAILS, REMARK, claims_table
from . import bounds, failures, groups, theorems

CLAIMS: Final = claims_table(
    "000",
    (81, "3.3.3, Theorem 1", "The first protocol satisfies consensus, validity, ordering and bounded time.",
     "Try small cases in every way, and crash processes and copies at drawn moments; holds if no run breaks a promise with e "
     "as the delay for a dead copy, remark if none does with 2 dd.", theorems.theorem_1, REMARK),
    (82, "3.3.1", "An extra delay of e for a copy that was found dead keeps a receiver from overtaking another.",
     "Let the copy die when one receiver has accepted in it, with receivers that look and decide more or less fast; holds if "
     "decisions differ without the delay and never with it.", theorems.overtaking, FAILS),
    (83, "3.4.1", "With the first protocol a receiver whose clock is fast can block all communication.",
     "Put one receiver's clock ahead; holds if all messages of all senders are rejected, none is if it is ahead by e, and "
     "none is with the second protocol.", failures.early),
    (84, "3.4.1", "The first protocol tolerates late timing failures.",
     "Stop a receiver at many moments, and let a sender write late; holds if nothing is violated among intact processes.",
     failures.late, FAILS),
    (85, "3.4.3, Theorem 2", "The second protocol satisfies consensus, validity, ordering and bounded time.",
     "Try small cases in every way, and let senders and a minority of receivers be late, early or crash, and copies die, at "
     "drawn moments; holds if no run breaks a promise with X and line 21 as printed, remark if none does as corrected.",
     theorems.theorem_2, REMARK),
    (86, "3.4.1", "The second protocol is correct if t < mu receivers fail, and only then.",
     "Let 0 to N - 1 of N receivers be early, late or crash, with an intact sender; holds if mu - 1 is the most with which "
     "its message is delivered in time, remark if it is for early ones, and floor((N - 1) / 2) for the others.",
     failures.how_many, REMARK),
    (87, "3.4.2", "Both decision fields, D and LD, are necessary.",
     "Let a sender pause before it sets its flags, and copies die, with and without writing an earlier copy's decision into "
     "D; holds if decisions differ without, never with it, and the explorer finds such a run, too.", theorems.decision_field),
    (88, "3.4.1", "X = Ds + p + n dd + 2e is long enough for the messages of intact senders.",
     "Let everything take as long as it may and all copies but the last be dead, and look for the least X; holds if the "
     "message is accepted with X as printed.", failures.expiry, FAILS),
    (89, "4.1, Table", "A Send takes n ds + n df at the most.",
     "The longest Sends of bad and of drawn runs, with copies that die; holds if none is longer and the bound is reached.",
     bounds.send),
    (90, "4.1, Table", "A Receive takes n (dd + dr + dfd + e), or n (dd + dr + dfd) + p + e, at the most.",
     "Let everything take its bound and copies die when they cost most; holds if no Receive is longer, remark if none is "
     "longer than the bounds as corrected.", bounds.receive, REMARK),
    (91, "4.1, Table", "The delivery latency is Ds + e, or X + e.",
     "The earliest and the latest moments of bad and of drawn runs; holds if nothing comes before and everything is "
     "delivered by then, remark if nothing comes before, and everything is delivered within our bounds.", bounds.latency, REMARK),
    (92, "4.1", "Times depend linearly on the number of copies, and not on the number of processes.",
     "Lines through the maxima for n = 1 to 6, and the maxima for 2 to 7 receivers; holds if R² > 0.9999 and there is no "
     "difference, and bounds hold where the memory serves one at a time.", bounds.dependence),
    (93, "A.1.1, Claims 1 and 2", "From its entry on a receiver has a flag in every message, from its exit on in none.",
     "Look at the flags of all messages written while somebody joins and leaves; holds if none is missing or left over.",
     groups.join_and_leave),
    (94, "A.1.2",
     "Senders with timing failures break Claims 1 and 2; listening in, and keeping messages for Ds + Dr + 2e, mends it.",
     "Let a sender be early, or late, while somebody joins or leaves; holds if both break the claims, nothing is lost with "
     "the changes and something is without each, and everybody has read by then; remark if all but lateness and the time are "
     "so.", groups.with_timing_failures, REMARK),
    (95, "A.2", "Through a slave a remote process keeps bounded times, if datagrams do.",
     "Let datagrams take less, and more, than their bound; holds if deliveries are within the bounds in the first case, and "
     "the remote member has a timing fault, and only times suffer, in the second.", groups.remote),
)  # fmt: skip
