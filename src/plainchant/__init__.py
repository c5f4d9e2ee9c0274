"""plainchant: reliable, ordered group communication in Python, and the laboratory that proves it.

Three floors: ``protocols`` (pure state machines), hosts that run them (``sim``, ``live``), and what reads the traces that hosts
write (``trace``, ``lab``). Programs use :func:`join` or :class:`Node`, and :func:`plainchant.sim.run` to test themselves. Start
reading with ``core.model`` and ``core.engine``, or with ``group`` and ``live.node``.
"""

from typing import TYPE_CHECKING

from .core.lazily import exports

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import sim as sim
    from .core.model import Invitation, PlainchantError, Reason, UsageError, View
    from .group import (
        Event,
        Group,
        GroupError,
        Guaranteed,
        Guarantees,
        Halted,
        JoinTimeout,
        LeaveTimeout,
        Lost,
        Message,
        NotFormed,
        Receipt,
        Refused,
        Rejected,
        State,
        StateRequest,
        Stream,
        merged,
    )
    from .live.keys import Key, Keyring
    from .live.node import Node, join
    from .live.node_keys import Insecure

__all__ = [
    "Event",
    "Group",
    "GroupError",
    "Guaranteed",
    "Guarantees",
    "Halted",
    "Insecure",
    "Invitation",
    "JoinTimeout",
    "Key",
    "Keyring",
    "LeaveTimeout",
    "Lost",
    "Message",
    "Node",
    "NotFormed",
    "PlainchantError",
    "Reason",
    "Receipt",
    "Refused",
    "Rejected",
    "State",
    "StateRequest",
    "Stream",
    "UsageError",
    "View",
    "join",
    "merged",
    "sim",
]

__getattr__ = exports(
    __name__,
    {
        **dict.fromkeys(__all__, "group"),
        **dict.fromkeys(("Node", "join"), "live.node"),
        "Insecure": "live.node_keys",
        **dict.fromkeys(("Key", "Keyring"), "live.keys"),
        **dict.fromkeys(("Invitation", "PlainchantError", "Reason", "UsageError", "View"), "core.model"),
        "sim": "sim",
    },
)
