"""Paper 004, the sequencer: Kaashoek, Tanenbaum, Flynn Hummel and Bal, "An efficient reliable broadcast protocol" (1989).

``broadcasts`` has scenarios and how they are counted, ``baselines`` two protocols to compare with, ``ethernet`` the cost model of
the paper's machines, fitted to Fig. 6 alone. ``normal`` measures the claims of section 2, ``times`` those of section 3,
``comparison`` those of sections 4 and 5. Start with the table below.
"""

from __future__ import annotations

from typing import Final

from ..claims import FAILS, REMARK, claims_table
from . import comparison, normal, times

CLAIMS: Final = claims_table(
    "004",
    (1, "2", "A broadcast needs two packets.",
     "Count packets of a steady sender in groups of several sizes, history never full; exactly 2.", normal.two_packets),
    (2, "2", "A broadcast to a group of n causes n interrupts.", "Count packet arrivals in the same runs; exactly n.",
     normal.n_interrupts),
    (3, "2", "Broadcasting by remote procedure calls needs 3(n - 1) packets and interrupts.",
     "Run such a protocol and count; exactly 3(n - 1) of both.", normal.remote_calls),
    (4, "2", "With acknowledgements 8, 7, 9, 8, 6, 8 the history is purged up to 6.",
     "Let six nodes hear, and acknowledge, just so much, then ask for room; also random tables. Exactly the minimum.",
     normal.purge),
    (5, "2.1", "A request that comes again is not broadcast again.",
     "Double and lose packets, look at every number given and every broadcast; none twice.", normal.duplicates),
    (6, "2", "A missed broadcast only gets that node behind, by a few tens of milliseconds.",
     "Lose broadcasts to one node, compare every delivery with the run without loss; others the same, it at most 50 ms late.",
     normal.a_miss),
    (7, "2.2", "When the second phase begins the history is empty and every node has everything.",
     "Look at all nodes whenever the sequencer sends PHASE2, with and without loss; no exception.", normal.second_phase),
    (8, "3, Fig. 6", "A broadcast takes 1.32 ms in a group of 2 and 1.53 ms in a group of 10.",
     "Fit two processor costs to the nine points; holds if all are met within 0.01 ms, remark within 0.05 ms.",
     times.delay_of_a_broadcast),
    (9, "3", "Each further node adds 25 µs.", "Slope of the simulated delays; holds within 1.5 µs, remark within 5 µs.",
     times.delay_of_a_node),
    (10, "3", "A broadcast to 100 nodes should take 3.8 ms.",
     "Simulate 100 nodes with the fitted costs; holds within 5 %, remark within 15 %.", times.a_hundred_nodes),
    (11, "3", "In the experiment of Fig. 6 a broadcast takes 2.5 packets on average.",
     "Count them for 10 nodes and a history of 20; holds within 0.05, remark within 0.15.", times.packets_on_average, REMARK),
    (12, "3", "Two senders together do at least the 667 broadcasts per second of one.",
     "Predicted rate of two senders; at least 667.", times.two_senders),
    (13, "3, Fig. 7", "2 to 7 senders do 1333, 1428, 1538, 1562, 1500, 1521 broadcasts per second, most with 5.",
     "Predict them with the costs fitted to Fig. 6; holds if all are within 15 % and 5 do most, remark if only the former.",
     times.rates, REMARK),
    (14, "3, Fig. 7", "Senders' delays deviate by at most 0.02 ms from their mean: the fairness is almost ideal.",
     "Mean deviation of the predicted delays; holds up to 0.025 ms (as printed), remark up to 5 % of the delay.",
     times.fairness, FAILS),
    (15, "3", "Three senders of 1000-byte messages use almost 80 % of the Ethernet.",
     "Predicted share of time in which the medium carries frames; holds within 5 points, remark within 15.",
     times.large_messages),
    (16, "4", "With a history as long as the group is large, a broadcast takes 3 packets.",
     "Count for n = H; holds within 0.05, remark if above 2.5 and at most 3.", comparison.history_of_n, REMARK),
    (17, "4", "With a history of 1024 a broadcast takes 2 packets on average.", "Count for 10 nodes; holds within 0.05.",
     comparison.large_history),
    (18, "4", "A message is delivered as soon as its broadcast arrives.",
     "Look whether a delivery happens while its packet is dealt with, nothing lost; no exception.", comparison.on_arrival),
    (19, "4", "A protocol with a moving token site causes at least 2(n - 1) interrupts.",
     "Run such a protocol and count; at least 2(n - 1), and the sequencer never more than that.", comparison.token_site),
    (20, "4", "Nodes other than the sequencer have no special storage requirements.",
     "The most messages that such a node ever keeps; holds if none.", comparison.storage, FAILS),
    (21, "5", "If the sequencer crashes, only messages of its own node that nobody received are lost.",
     "Crash it under load and loss; remark if each lost message that a survivor received stands behind one that none did.",
     comparison.crash, REMARK),
    (22, "5", "The 27 broadcasts per second of the most demanding application are under 2 % of the maximum.",
     "27 over the largest predicted rate; below 2 %.", times.share_of_the_maximum),
)  # fmt: skip
