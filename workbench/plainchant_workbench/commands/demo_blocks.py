"""The part of ``plainchant demo`` that builds upon a group: a lock whose holder is killed, and a store that looks at tokens."""

from __future__ import annotations

import asyncio
import dataclasses
from functools import partial
from typing import Any, Final

from rich.table import Table

from plainchant import sim
from plainchant.blocks import Fence, Lock, LockLost, Replica, StaleToken
from plainchant.cli.console import output, plain_table
from plainchant.cli.run import tell_verification
from plainchant.group import Group
from plainchant.lab.properties import verify
from plainchant.sim.asynchronous import Result

_CRASH: Final[dict[str, Any]] = {"kind": "crash", "process": "p1", "at": "100ms"}
_CUT_OFF: Final[dict[str, Any]] = {"kind": "partition", "at": "400ms", "length": "2s", "parts": [["p2"], ["p3", "p4", "p5"]]}
_TIMES: Final = 2
"""So often every member wants the lock."""


@dataclasses.dataclass
class _Store:
    """What the lock protects. It is outside the group, and trusts tokens only."""

    fence: Fence = dataclasses.field(default_factory=lambda: Fence("store"))
    lines: list[tuple[int, str, str]] = dataclasses.field(default_factory=list)

    def write(self, token: int, who: str, line: str, lock: Lock) -> None:
        self.fence.admit(token, partial(lock.note, "admit"))
        self.lines.append((token, who, line))


def built_upon() -> bool:
    """Five members, a lock, a holder that is killed and another that is cut off; True if all promises were kept."""
    console = output()
    console.print("\n[bold]And what is it good for?[/bold]")
    console.print(
        "Five members take turns at a store that only one may write to at a time, by a lock with tokens that grow. p1 is killed "
        "while it holds the lock, and p2 is cut off while it does. Who wrote with which token, and what:\n",
        markup=False,
    )
    store = _Store()

    async def main(group: Group) -> None:
        lock = Lock()
        async with Replica(group, lock=lock) as replica:
            for _ in range(_TIMES):
                try:
                    async with lock as token:
                        store.write(token, group.me, "begins", lock)
                        await asyncio.sleep(0.2)
                        store.write(token, group.me, "ends", lock)
                except (LockLost, StaleToken):
                    continue
            await replica.ended()

    result = sim.run(main, members=5, state=True, faults=[_CRASH, _CUT_OFF], duration="5s", raises=False)
    console.print(_written(store))
    console.print()
    tell_verification(verify(result.trace), console)
    return _is_right(store, result)


def _written(store: _Store) -> Table:
    by_token: dict[int, tuple[str, list[str]]] = {}
    for token, who, line in store.lines:
        by_token.setdefault(token, (who, []))[1].append(line)
    table = plain_table("token", "holder", "wrote")
    for token, (who, lines) in sorted(by_token.items()):
        table.add_row(str(token), who, " and ".join(lines) + ("" if "ends" in lines else ", and never ended"))
    return table


def _is_right(store: _Store, result: Result) -> bool:
    tokens = [token for token, _, _ in store.lines]
    return result.verdict == "holds" and tokens == sorted(tokens) and bool(tokens)
