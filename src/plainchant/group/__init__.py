"""A group: what an asyncio program and its host each see of one process's membership.

Read :mod:`.group` for what applications call and :mod:`.membership` for what hosts call. The parts of a membership are leaves:
:mod:`.sending` and :mod:`.reading` are its two bounded buffers, :mod:`.receipts` follows the own messages, :mod:`.deadlines` has
the streams whose deadlines are guaranteed. :mod:`.state_transfer` turns the state-transfer layer's calls into events.
"""

from .deadlines import Guaranteed
from .errors import GroupError, Halted, JoinTimeout, LeaveTimeout, Lost, NotFormed, Refused, Rejected
from .events import Event, Message, State, StateRequest
from .group import Group, merged
from .membership import Membership
from .profile import LARGEST_MESSAGE, MESSAGE_COST, OUTGOING, UNREAD, Buffers, Guarantees, Profile
from .reading import Stream
from .receipts import Receipt

__all__ = ["LARGEST_MESSAGE", "MESSAGE_COST", "OUTGOING", "UNREAD", "Buffers", "Event", "Group", "GroupError", "Guaranteed"]
__all__ += ["Guarantees", "Halted", "JoinTimeout", "LeaveTimeout", "Lost", "Membership", "Message", "NotFormed", "Profile"]
__all__ += ["Receipt", "Refused", "Rejected", "State", "StateRequest", "Stream", "merged"]
