"""Paper 001, newtop: Macêdo, "Fault-tolerant group communication protocols for asynchronous systems" (1994).

``structures`` has scenarios of overlapping groups, ``causes`` what happened before what in them, ``variants`` the engine with a
rule as printed or without it. ``blocks`` (chapters 3 and 4), ``causal`` (5), ``membership`` (6), ``sizes`` (bytes on the wire),
``flow`` (8), ``asymmetric`` and ``transports`` (9.2) measure claims; ``experiments`` re-runs those of 7.3 and 8.2 on the machines
of ``stations``. Start with the table below.
"""

from __future__ import annotations

from typing import Final

from ..claims import FAILS, REMARK, claims_table
from . import asymmetric, blocks, causal, experiments, flow, membership, sizes, transports

CLAIMS: Final = claims_table(
    "001",
    (23, "3.2", "Numbers grow with sends and deliveries, and messages with equal numbers are concurrent (pr1 to pr3).",
     "Look at every message of runs in random structures, with what really happened before it; no exception.", blocks.properties),
    (24, "3.5, Fig. 3.1", "LRV is (4, 5, 3, 3, 4, 2): blocks 1 and 2 are complete and three are not.",
     "Enter the figure into a Block Matrix; exactly this.", blocks.last_received),
    (25, "3.4", "Over a FIFO transport blocks complete in the order of their numbers.",
     "Whenever a multicast arrives, see whether its number was counted as complete, and compare the engine's matrix with the "
     "definition; never over FIFO links, and sometimes over links that overtake, or the test would show nothing.",
     blocks.in_order),
    (26, "3.7, Fig. 3.4", "With a message of p3 missing, block 4 is complete before 2 and 3.",
     "Enter the figure into a Block Matrix; exactly blocks 1 and 4.", blocks.out_of_order),
    (27, "4.2", "For total order the counter need not advance on delivery (CA2).",
     "Count deliveries that advance it; none in total order, and some in slow causal order.", blocks.redundant),
    (28, "4.3", "Every block that is created becomes complete.",
     "Drain runs with silent members and look at all matrices; no block incomplete, no run without an end.", blocks.every_block),
    (29, "4.4", "In overlapping groups safe1 is not enough, and safe1' is.",
     "Verify total order of Fig. 4.2(a) and of random structures under both; violated in Fig. 4.2(a) under safe1, never "
     "under safe1'.", blocks.safe),
    (30, "4.4, Fig. 4.2", "In a cycle of three groups r delivers m1 before m3 although m3 arrives first.",
     "Run it, also with safe1 and without the second liveness mechanism; in that order with the rules, and not with safe1.",
     blocks.cycle),
    (31, "4.5.2", "A sender's numbers grow in each group, nulls included (Lemma I); its messages' in all groups (Lemma II).",
     "Look at every multicast of the runs of claim 23; no exception.", blocks.lemmas),
    (32, "4.6", "What total order adds to a message is constant and small.",
     "Encode messages in groups of 2 to 64, 1 to 16 of them overlapping, by their own codec; no number but the block.",
     sizes.constant),
    (33, "5.1", "LDV represents causality as precisely as vector clocks.",
     "Compare pr2's test with what really happened before, for all pairs of messages of random runs; no difference.",
     causal.precise),
    (34, "5.2, Fig. 5.1", "In a cycle of four groups p2 has to deliver m1 before m4.",
     "Run it with all orders; so in all, and the other way round if vectors lose what comes from further away.",
     causal.four_groups),
    (35, "5.7", "Fast causal order delivers no later than Relative, and Relative no later than Slow.",
     "Mean delays of the same runs under each; holds if so in every structure, remark if fast is first in every structure and "
     "relative before slow over all of them.", causal.delays, REMARK),
    (36, "5.5", "GLDV is smaller than CBCAST's vectors as soon as groups overlap.",
     "Count numbers and bytes in the messages of claim 32; holds if fewer of both, remark if only of numbers.",
     sizes.overlapping, REMARK),
    (37, "5.5", "Fast causal order delivers as early as possible.",
     "A message that follows one of a group that its receiver is not in; holds if it waits for nothing with GLDV as printed.",
     causal.early, FAILS),
    (38, "5.6", "Within one group Relative causal order delivers as early as possible.",
     "Look at every delivery that waited; holds if each lacked something that happened before.", causal.one_group_early),
    (39, "5.6", "Relative causal order is live: every message is delivered in the end.",
     "Two groups with messages that cross, a block counter a group as printed; holds if all are delivered.",
     causal.crossed, FAILS),
    *membership.CLAIMS,
    (48, "7.3.2, Figs 7.3 to 7.5",
     "One active of three: with longer time-silence more unstable blocks, fewer nulls, longer delay.",
     "Run the experiment on modelled workstations, 50 to 1050 ms; holds if all three go that way, remark if they tend to.",
     experiments.silence_of_three),
    (49, "7.3.2, Figs 7.6 to 7.8", "The same in groups of 2 to 6.", "The same for each size, a message every 200 ms.",
     experiments.silence_by_size),
    (50, "7.3.2, Figs 7.9 to 7.12",
     "One active of three: with shorter intervals more unstable blocks, longer delay, fewer nulls, higher throughput.",
     "The experiment with 400 to 6 ms; holds if all four go that way, remark if only the delay does not all along, but is "
     "longer at 6 ms than at 400 ms.", experiments.interval_of_three, REMARK),
    (51, "7.3.2, Figs 7.13 to 7.15", "All three active: time-silence changes the number of nulls and hardly anything else.",
     "The experiment with 350 to 100 ms; holds if nulls grow, unstable blocks change by at most one and the delay by less "
     "than a quarter, remark if nulls grow by five times as much as these.", experiments.all_active_of_three, REMARK),
    (52, "7.3.2", "All active, with a time-silence longer than the interval no null message is sent.",
     "Count them, with senders of exactly equal and of slightly different rates; holds if no more than one a member (for "
     "the last message) in both, remark if only with equal rates.", experiments.longer_than_the_interval, REMARK),
    (53, "7.3.2, Figs 7.16 to 7.18", "All active, 2 to 6 members: the delay is slightly shorter with shorter time-silence.",
     "The experiment with 450 to 200 ms; holds if the delay falls all along in each size, by less than a half, remark if "
     "it is shorter at the end than at the beginning in each.", experiments.all_active_by_size, REMARK),
    (54, "7.3.1", "A time-out of four ticks of 50 ms lasts 150 to 200 ms.",
     "Measure time-outs at random moments; all within, and over all of that range.", experiments.ticks),
    (55, "8.1", "No member ever has more than N unstable blocks.",
     "Look at all members after every packet, senders as fast as they are let; never, and never more than N messages of a "
     "member.", flow.bounded),
    (56, "8.1", "Flow control needs N of at least 3.",
     "Let everybody send with N = 3 and with N = 2; all delivered with 3, deadlock with 2.", flow.least_bound),
    (57, "8.1, Fig. 8.1", "With N = 8 blocks 5 to 10 may be sent, and 11 waits.",
     "Ask the rules in that situation; exactly this.", flow.example),
    (58, "8.1", "With fl1 alone senders deadlock.",
     "Run with and without fl2 and fl3; holds if all runs deadlock without and none with them, remark if some do.",
     flow.one_condition),
    (59, "8.2, Figs 8.2 and 8.3", "With N = 50, six members, flow control shortens the delay at intervals of 50 ms and less.",
     "The experiment with flow control off and on; holds if at exactly these intervals (of those tried), remark if at "
     "shorter ones only.", experiments.flow_control),
    (60, "8.3", "Flow control needs no acknowledgements of its own.",
     "Count packets with flow control and without; no other kinds, and with N = 50 no more nulls.", flow.no_acknowledgements),
    (61, "9.2", "Where few members are active an asymmetric group is more efficient, where all are a symmetric one.",
     "Delay and packets of both by how many of ten are active; asymmetric less of both with one and two, symmetric less of "
     "both with ten that send often.", asymmetric.few_active),
    (62, "9.2", "Over UDP Newtop performs better than over TCP.",
     "Processor time of live groups over both; holds if clearly less (below 80 %) for a message and for a round trip, "
     "remark if clearly less for one and not clearly more for the other.", transports.udp_and_tcp, FAILS),
)  # fmt: skip
