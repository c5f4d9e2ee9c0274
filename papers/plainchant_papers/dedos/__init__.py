"""Paper 002, soft real-time multicast within a node and between nodes: mailboxes, relays (intermediates), distributors.

``towns`` has what is run, ``metered`` how packets on the LAN and operations on shared memory are counted, ``watch`` the lemmas as
questions, ``variants`` the engine with one decision made differently, ``cases`` the paper's examples.
``lemmas``, ``examples``, ``network`` and ``membership`` measure the claims. ``hierarchy`` compares with the flat sequencer, and
``installation`` is a model of larger installations; both are shown with claims 103, 104 and 106. Start with the table below.
"""

from __future__ import annotations

from typing import Final

from ..claims import FAILS, REMARK, claims_table
from . import examples, lemmas, membership, network

CLAIMS: Final = claims_table(
    "002",
    (96, "3.6.2", "The invariants hold between primitives.",
     "Ask them after every operation on common memory, while processes and boxes crash and packets are lost; holds if none is "
     "ever wrong, remark if only the numbers in a mailbox have gaps.", lemmas.invariants, REMARK),
    (97, "3.6.2, first example",
     "A sender's message has to be kept on its node: otherwise it is lost with mailboxes and distributor.",
     "Let all mailboxes and the distributor crash when nobody has read it, with the message in all boxes and in the mailbox "
     "only; holds if it is delivered in the first case and validity is violated in the second.", examples.sender_buffer),
    (98, "3.6.2, second example", "Receivers have to keep what they have read: otherwise one may be the only one who has.",
     "Let mailboxes, distributor and sender crash when one of four receivers has read the message, with and without buffers; "
     "holds if all get it in the first case and agreement is violated in the second.", examples.four_receivers),
    (99, "3.6.2, third example", "If messages are stored before receivers have restored theirs, there is a deadlock.",
     "Let a mailbox crash whose receiver keeps as many messages as it holds, and new ones be stored, with and without flags; "
     "holds if everything is delivered in the first case and nothing goes on in the second.", examples.full_buffer),
    (100, "B, Lemmas B.1 to B.3", "The lemmas of appendix B hold.",
     "Ask them after every operation on common memory, as for claim 96; holds if none is ever wrong.", lemmas.appendix_b),
    (101, "C, Lemmas C.1 to C.6", "The lemmas of appendix C hold.",
     "Ask them after every operation on common memory within a node, while processes and boxes crash; holds if none is ever "
     "wrong.", lemmas.appendix_c),
    (102, "B", "A new distributor that loads what not every mailbox has loses nothing.",
     "Let the distributor crash when a message is in all mailboxes and not read by all, and then a mailbox; holds if "
     "everybody gets it.", examples.rebuild, FAILS),
    (103, "4.1", "There is no extra latency as long as mailboxes and distributor live and the history is not full.",
     "Let each kind of component crash under load; holds if the longest delivery is less than twice that without failures for "
     "all others, and more for these; remark if only a relay's crash delays messages as well.", network.latency, REMARK),
    (104, "3.5", "A broadcast occupies the LAN for less time than point-to-point messages.",
     "The time that all packets of a message take on a LAN with broadcasts and without; holds if it is less for more than two "
     "nodes.", network.broadcasts),
    (105, "4.2", "Fewer retransmissions are needed if what arrives early is kept.",
     "Count what is sent again on networks that lose packets, with and without; holds if it is less for every loss.",
     network.buffering),
    (106, "3.5, 4.2", "A distributor a group spreads the load.",
     "Packets that nodes send and handle, with distributors where there are fewest and all on one node; holds if the busiest "
     "node has less to do, and no node has more than twice its share of distributors.", network.distributors),
    (107, "1.3", "A node that joins is known to all by T + 2D, one that has failed by O + D.",
     "Let nodes join and crash at drawn moments; holds if all others are told, and never later.", membership.nodes),
    (108, "3.2", "There is no order between groups.",
     "Look for two members of the same two groups that deliver their messages interleaved differently; holds if there are "
     "any, and the order within groups is always the same.", membership.between_groups),
)  # fmt: skip
