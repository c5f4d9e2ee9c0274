"""Paper 003, RTCast: Abdelzaher, Shaikh, Jahanian and Shin, "RTCAST: Lightweight Multicast for Real-Time Process Groups" (1996).

``rings`` has rings and how they are looked at, ``variants`` the ring without a rule. ``rotation``, ``crashes``, ``changes``,
``guarantees``, ``schedulability``, ``promises`` and ``delivery`` measure the claims. Start with the table below.
"""

from __future__ import annotations

from typing import Final

from ..claims import FAILS, REMARK, claims_table
from . import changes, crashes, delivery, guarantees, promises, rotation, schedulability

CLAIMS: Final = claims_table(
    "003",
    (63, "4.1, 4.4", "A rotation of the token takes at most the sum of all T + (n - 1) d_max, and T_v for a join slot.",
     "Fill every turn and let every packet take d_max, with somebody who asks to join, and with a crash; holds if no "
     "rotation is longer, remark if none is longer than with n hops, nor, with a crash, than P as it is reckoned here.",
     rotation.token_rotation, REMARK),
    (64, "4.2", "A receiver stays if the elimination of who it misses says that it has its last message.",
     "Crash members between broadcasts and within one, r = 0, and look at who lacks a packet; holds if exactly those stop, "
     "nothing is violated, and others would stop without the rule.", crashes.false_omission),
    (65, "4.3, Fig. 5", "H, which has not heard D, F and G, eliminates F and G only.",
     "Run the figure at many moments of a rotation, and crashes with lost heartbeats at random; holds if it happens as "
     "told, no live member is eliminated or stops, and some would be if all who are silent were.", crashes.closure_only),
    (66, "4.3", "Membership changes precede all other messages of a token visit.",
     "Look at every turn of runs with crashes, omissions and joins; no ordered packet before a change.", crashes.changes_first),
    (67, "4.5", "A processor joins without a query round if the ring with it still fits into P.",
     "Let members come back before and after P is given back, and new ones join; holds if there is no query in the first "
     "case and one in each of the others, and all get in.", changes.no_query),
    (68, "4.5", "Keeping P for a while after a crash avoids two updates of it when the member rejoins soon.",
     "Count how often P changes; holds if never for who is back soon, twice for who is not.", changes.two_updates),
    (69, "4.6", "More retransmissions make receive omissions rarer, and fewer messages can be guaranteed.",
     "Lose packets, and ask for streams, with r = 0 to 3; holds if from each r to the next fewer members stop for an "
     "omission, never more load is admitted, and nothing that was admitted is late.", guarantees.more_retransmissions),
    (70, "5", "A message is delivered within Delta = (r + 1) P of being sent.",
     "Lose a packet r times on a ring with full turns; the longest delivery is at most (r + 1) P, and nobody stops.",
     guarantees.delivery_time),
    (71, "5, Lemma 1", "If at most T of messages comes within any P, each is sent within P.",
     "Draw such flows, and turns that begin at most P apart; holds if nothing is late, remark if nothing is with turns "
     "that are kept for all of T, and with turns that are released early nothing waits longer than P for its turn.",
     schedulability.lemma_1, REMARK),
    (72, "5, Lemma 2", "A message meets its deadline if C1, C2 and C3 hold.",
     "Draw message sets for which they hold and send them as the proof says; holds if none is late.",
     schedulability.lemma_2, FAILS),
    (73, "5, Theorem 1", "The sum of C/n being at most T is sufficient for a set of messages, and not necessary.",
     "Draw sets on both sides, and send those that admission control takes through its regulator; holds if none of these "
     "is late, and some that do not have it can always be sent in time.", schedulability.theorem_1),
    (74, "8, Lemma 3", "The multicast guarantees order.",
     "Verify runs with crashes and omissions at random (6.3); holds if order is never violated and nobody stops where "
     "packets only overtake each other, remark if nobody does with the hold for early packets.", promises.order, REMARK),
    (75, "8, Lemma 5", "Members that have each other in their views have the same views after the current round.",
     "In runs with crashes, omissions and joins, compare when members install a view (joiners that do not get in count as "
     "crashed, as in the proof); holds if within P, remark if within (r + 1) P.", changes.same_views),
    (76, "8, Lemma 7", "What a member sends is delivered by every member of its view that does not crash.",
     "Verify agreement, view-atomicity and views in the runs of claim 74; no violation.", promises.atomicity),
    (77, "2", "A retransmission delays delivery only at the processor that asked for it.",
     "Let one member miss packets, and compare every delivery with the run without; holds if the others deliver nothing "
     "later, and do with safe delivery.", delivery.only_the_requester),
    (78, "2", "Messages are delivered in one round, where safe delivery, as in Totem, takes two.",
     "Both rules on the same ring, from when the application hands over; holds if immediate delivery takes a rotation and "
     "a delay at most, and safe delivery more than one and at most two and a delay.", delivery.one_round),
    (79, "6.3", "All guaranteed messages make it to all destinations by their deadlines, unless the destination crashed.",
     "Verify deadlines, order and atomicity of runs with r = 0 to 3, packets lost up to r times, and crashes; no violation.",
     guarantees.every_deadline),
    (80, "6.1", "RTCast alone, on a broadcast network, keeps order, atomicity and agreement on membership.",
     "Run the ring without any other layer, with crashes and omissions; no violation.", promises.minimal),
)  # fmt: skip
