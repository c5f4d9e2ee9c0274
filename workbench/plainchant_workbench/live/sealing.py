"""What sealing costs: processor time a message with a key to that without, of three members in one process.

A fixed number of messages goes through a group whose members share one event loop, with and without a key in turns. Processor
time does not count who else uses the machine, so this ratio holds where rates of processes do not: on a machine that is busy.
"""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
import time
from typing import Any, Final

import plainchant
from plainchant.live.keys import Keyring
from plainchant.live.ports import free_ports

from .plan import Case
from .processes import BenchError

MESSAGES: Final = {(32, 65_507): 60_000, (32, 1_400): 20_000, (1_024, 65_507): 6_000}
"""That each member sends, by size and packet."""
PARAMETERS: Final[dict[str, dict[str, str]]] = {
    "sequencer": {"suspect_after": "30s", "patience": "90s"},
    "newtop": {"suspect_after": "30s"},
}
"""Protocols that can be measured so, and that nobody is excluded on a busy machine."""
TOGETHER: Final = 32 << 10
"""Bytes of messages handed over in one ``send_many``."""
SECONDS: Final = 120.0
"""After so long a round has failed."""
NAMES: Final = ("m0", "m1", "m2")


def can_measure(case: Case) -> bool:
    """Whether a case is one of these."""
    return case.protocol in PARAMETERS and (case.size, case.packet) in MESSAGES


def measure_sealing(case: Case, rounds: int) -> dict[str, Any]:
    """The ratio of processor times, round by round; ``case`` says protocol, size and packet."""
    pairs = []
    for _ in range(rounds):
        pairs.append((asyncio.run(_spent(case, None)), asyncio.run(_spent(case, Keyring.new()))))
    ratios = sorted(sealed / plain for plain, sealed in pairs)
    return {
        "protocol": case.protocol,
        "size": case.size,
        "packet": case.packet,
        "rounds": rounds,
        "plain_us": round(statistics.median(plain for plain, _ in pairs), 3),
        "sealed_us": round(statistics.median(sealed for _, sealed in pairs), 3),
        "median": round(statistics.median(ratios), 3),
        "least": round(ratios[0], 3),
        "largest": round(ratios[-1], 3),
    }


async def _spent(case: Case, key: Keyring | None) -> float:
    """Processor time a message, in µs."""
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, free_ports(len(NAMES)), strict=True)}
    nodes = [
        plainchant.Node(
            me=name, peers=peers, key=key, packet=case.packet, protocol=case.protocol, parameters=PARAMETERS[case.protocol]
        )
        for name in NAMES
    ]
    try:
        async with asyncio.timeout(SECONDS):
            for node in nodes:
                await node.open()
            groups = await asyncio.gather(*(node.enter("bench", NAMES, SECONDS) for node in nodes))
            together = max(1, TOGETHER // case.size)
            times = -(-MESSAGES[case.size, case.packet] // together)
            total = len(NAMES) * times * together
            began = time.process_time()
            await asyncio.gather(
                *(_send(group, [bytes(case.size)] * together, times) for group in groups),
                *(_read(group, total) for group in groups),
            )
            return (time.process_time() - began) / total * 1e6
    except TimeoutError:
        raise BenchError(f"{dataclasses.replace(case, encrypted=key is not None)}: not done in {SECONDS:.0f} s") from None
    finally:
        for node in nodes:
            await node.close()


async def _send(group: plainchant.Group, messages: list[bytes], times: int) -> None:
    for _ in range(times):
        await group.send_many(messages)


async def _read(group: plainchant.Group, total: int) -> None:
    seen = 0
    async for batch in group.batches():
        seen += sum(type(event) is plainchant.Message for event in batch)
        if seen >= total:
            return
