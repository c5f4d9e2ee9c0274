"""How long everything takes at the most: the bounds of one operation made into those of the protocols.

An operation has its effect between its beginning and its bound. Two things that happen at one moment may come in either order,
so whatever has to be *after* something waits one :data:`TICK` longer than that can take.

**Overtaking** (first protocol). A receiver that finds a copy dead goes on to the next one, where it must not come before one that
found the copy alive has written the decision there. That one began the dead copy at most ``decide`` later and is done with the
next copy within two slots of ``decide``: the extra delay has to be ``2 decide`` for each copy that was found dead, on top of its
slot, and is never given back. (The seed has e, once.)

**Slots** (second protocol). All intact receivers begin a message at the same reading of their clocks, so within e. They see it in
``decide``; a voter must know that all have seen it, so the vote begins ``decide + e`` after the slot's beginning; all have voted
``2 decide + 2e`` after it, when the decision is final. A copy that dies is left at the end of its slot of ``3 decide + 2e``, by
all alike. Copy i has its slot i after the beginning, dead or not.

**Expiry**. The last intact copy may be the last of all, so messages of intact senders are seen up to ``(n - 1)`` slots and one
step after the beginning."""

from __future__ import annotations

from typing import Final

from .parameters import Parameters

TICK: Final = 1
LOOKS_IN_PATIENCE: Final = 8  # how often a receiver looks for overdue flags in ``patience``


class Times:
    """Everything in ns; nothing depends on how many processes there are."""

    def __init__(self, parameters: Parameters) -> None:
        copies = parameters.copies
        self.parameters = parameters
        self.first = parameters.tolerate == "crash"
        skew, decide = parameters.skew, parameters.decide
        self.send = copies * (parameters.write + parameters.flag)  # Ds: a Send, from its timestamp
        self.join = copies * parameters.flag  # Dj, Dl: until all copies have one's entry or exit
        self.complete = self.send + skew + TICK  # after its timestamp, on any clock: a message is there, or its sender has failed
        self.extra = self._extra()  # how much longer the first protocol waits after a copy that it found dead
        self.vote = decide + skew + TICK  # from a slot's beginning to the votes
        self.settle = 2 * (decide + skew + TICK)  # from a slot's beginning to the decision
        self.slot = self.settle + decide + TICK
        self.period = parameters.schedule or parameters.poll  # from one instant to the next
        self.detect = 0 if parameters.schedule else parameters.poll  # p: how long a complete message can wait to be looked for
        self.expiry = parameters.expiry or self._expiry()  # X: a message is seen before its timestamp and this, or it is late
        # After a message's timestamp, on any clock: nothing earlier that is not there yet will be accepted.
        self.settled = self.complete if self.first else self.expiry + skew + TICK
        failing = copies - 1
        # ``receive`` is Dr: a Receive, from the decision's beginning until all flags are set; ``deliver`` is the time from a
        # message's Send to its delivery, by a clock that is right.
        if self.first:
            self.receive = copies * decide + failing * self.extra + copies * (parameters.read + parameters.finish)
            # A copy that dies is found dead once: by a look, which is repeated, or by the decision, and then by who reads.
            dead = decide + self.extra + max(decide, parameters.read)
            self.deliver = self.complete + skew + self.detect + 2 * decide + failing * dead + parameters.read
        else:
            self.receive = copies * (self.slot + parameters.read + parameters.finish)
            # Something earlier of a slow sender that was seen at the last moment has to be decided first, by all who look for it.
            decided = self.period + decide + copies * self.slot
            self.deliver = self.settled + skew + copies * decide + decided + skew + copies * parameters.read
        self.kept = 0 if self.first else self._kept()  # after its timestamp, on any clock: every intact receiver has read it
        # After its timestamp, or after it was written: every intact receiver has set its flags, in two batches at most.
        self.flagged = max(self.deliver, self.kept) + skew + self.period + 2 * copies * parameters.finish + TICK

    @property
    def watch(self) -> int:
        """Time between two looks for overdue flags."""
        return self.parameters.patience // LOOKS_IN_PATIENCE

    @property
    def slot_free(self) -> int:
        """From the timestamp of an intact sender's message until its slot is free, whatever a receiver does (``watching``).

        All intact receivers have watched the message since a round of ``watch`` after it was written, and ``flagged`` and
        ``patience`` later, in their next round, they report what is missing. Those reports suffice. The exclusion is carried to
        the other copies, a round later if the process that made it has crashed, and the sender sees that at its next look."""
        parameters = self.parameters
        copies = parameters.copies
        round_ = self.watch + copies * (parameters.decide + copies * parameters.flag)
        overdue = self.send + self.flagged + parameters.patience
        return overdue + 3 * round_ + self.period + copies * parameters.decide + 2 * parameters.skew

    def _extra(self) -> int:  # see *Overtaking* above
        return 2 * self.parameters.decide + TICK

    def _expiry(self) -> int:  # see *Expiry* above
        decide = self.parameters.decide
        return self.complete + self.detect + decide + (self.parameters.copies - 1) * self.slot + decide + TICK

    def _kept(self) -> int:
        """With the second protocol a message is removed only when every receiver had time to read it (A.1.2)."""
        return self.deliver + self.parameters.skew + TICK

    def instant(self, after: int) -> int:
        """The next moment, not before ``after``, at which a receiver looks for messages."""
        phase = self.complete % self.period if self.parameters.schedule else 0
        return after + (phase - after) % self.period
