"""The keys of one node: where they come from, sealing with them, and reading the key file again when it changes."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..core.model import UsageError
from .addresses import format_address, is_loopback
from .refusals import Refusals
from .transport import Address, Transport

if TYPE_CHECKING:
    from .keys import Keyring, KeySource
    from .sealed import Sealed

KEY_POLL: Final = 1.0  # seconds between two looks at the key file


class Insecure(UserWarning):
    """A node that others can reach over a network runs without a key."""


class NodeKeys:
    """The keys of the node at a place. They are looked up when the node opens, in what it was given or in the environment."""

    def __init__(self, place: str, given: Keyring | str | Path | None) -> None:
        self._place = place
        self._given = given
        self._timer: asyncio.TimerHandle | None = None
        self.source: KeySource | None = None  # none before the node is open, and without a key
        self.sealed: Sealed | None = None  # the transport that seals packets, where there is a key
        self.problem: str | None = None  # why the key file could not be read, when it was last looked at

    def find(self) -> None:
        """Looks the keys up. The ciphers are loaded only where there are any."""
        if self._given is None and not any(name in os.environ for name in ("PLAINCHANT_KEY", "PLAINCHANT_KEY_FILE")):
            return
        from .keys import KeySource

        self.source = KeySource.find(self._given)

    def check_reach(self, addresses: Sequence[Address], *, insecure: bool) -> str:
        """Fails if other machines reach a node without a key, unless that is intended; returns the warning for that case."""
        reachable = [format_address(address) for address in addresses if not is_loopback(address)]
        if self.source is not None or not reachable:
            return ""
        what = f"{self._place} is at {' and '.join(reachable)}, where other machines reach it, and has no key"
        if not insecure:
            text = f"{what}: anybody there could read, change and forge all messages; make a key with `plainchant key new FILE`"
            raise UsageError(f"{text}, give key=FILE at every member, or say insecure=True (--insecure) if that is meant")
        return f"{what}: anybody there can read, change and forge all messages (`plainchant key new FILE`, then key=FILE)"

    def seal(
        self,
        transport: Transport,
        boot: bytes,
        peers: Mapping[str, Address],
        refusals: Refusals,
        proved: Callable[[Address], None],
    ) -> Transport:
        """The transport with its packets sealed; the transport itself where there is no key."""
        if self.source is None:
            return transport
        from .sealed import Sealed  # brings the ciphers, which a process without a key does not need

        ring = self.source.ring
        self.sealed = Sealed(transport, ring, place=self._place, boot=boot, peers=peers, refusals=refusals, proved=proved)
        return self.sealed

    def watch(self) -> None:
        """Looks at the key file regularly, until :meth:`stop`."""
        if self.source is not None and self.source.path is not None:
            self._timer = asyncio.get_running_loop().call_later(KEY_POLL, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        try:
            self._reload(always=False)
        except UsageError as problem:
            if str(problem) != self.problem:
                self.problem = str(problem)
                warnings.warn(f"{self._place} goes on with the keys that it has: {problem}", RuntimeWarning, stacklevel=2)
        self.watch()

    def reload(self) -> bool:
        """Reads the key file again, now; returns whether it has other keys than before."""
        if self.source is None or self.source.path is None:
            raise UsageError(f"{self._place} has no key file; give key=FILE, or other keys by use_keys")
        return self._reload(always=True)

    def _reload(self, *, always: bool) -> bool:
        assert self.source is not None
        ring = self.source.reload(always=always)
        if ring is None:
            return False
        self.problem = None
        if self.sealed is not None:
            self.sealed.use(ring)
        return True

    def use(self, ring: Keyring) -> None:
        """Changes the keys of a node that was started with a keyring."""
        if self.source is None or self.sealed is None or self.source.path is not None:
            raise UsageError(f"{self._place} was not started with a Keyring; change its key file, or give key=Keyring(...)")
        self.source.ring = ring
        self.sealed.use(ring)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the keys, the one used for sealing first."""
        return tuple(str(key) for key in self.source.ring.keys) if self.source is not None else ()

    def statistics(self) -> dict[str, int]:
        """What the sealing counts; empty without a key."""
        if self.sealed is None or self.source is None:
            return {}
        users = self.sealed.sealed_with
        return {
            "packets_unproved": self.sealed.unproved,
            "sessions": self.sealed.sessions,
            **{f"sealed_with_{key}": users.get(key.id, 0) for key in self.source.ring.keys},
        }
