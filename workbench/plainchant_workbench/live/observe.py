"""What it costs to be looked at: ``python -m plainchant_workbench.live.observe``.

Two members in one process flood each other's group, without anything, with metrics, with metrics that are scraped all the time,
and with spans; what is compared is processor time a message. The variants take turns, many times, because what else the machine
does changes more than they differ; the median of the ratios is what counts. Wants the extra ``observe``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from contextlib import AsyncExitStack
from typing import Any, Final

import plainchant
from plainchant.live.ports import free_addresses

TOGETHER: Final = 64
SCRAPES: Final = 1.0
"""Seconds between two scrapes, which is more often than anybody scrapes."""
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "without": {},
    "again without": {},
    "metrics": {"metrics": "0"},
    "metrics, scraped": {"metrics": "0"},
    "metrics, spans of 1 in 10,000": {"metrics": "0", "spans": 0.0001},
    "metrics, spans of 1 in 1,000": {"metrics": "0", "spans": 0.001},
}


async def _scrape(address: tuple[str, int], took: list[float]) -> None:
    """Scrapes for ever; notes how long each took."""
    while True:
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        await reader.read()
        writer.close()
        took.append(time.perf_counter() - began)
        await asyncio.sleep(SCRAPES)


async def _read(group: plainchant.Group, number: int) -> None:
    count = 0
    async for batch in group.batches():
        count += sum(1 for event in batch if isinstance(event, plainchant.Message))
        if count >= number:
            return


async def _round(variant: str, messages: int, one_by_one: bool, took: list[float]) -> float:
    """Processor seconds a message that is sent by one member and delivered at both."""
    peers = free_addresses(["a", "b"])
    async with AsyncExitStack() as stack:
        joins = [stack.enter_async_context(plainchant.join("g", me=name, peers=peers, **VARIANTS[variant])) for name in peers]
        groups = await asyncio.gather(*joins)
        scraping = None
        if "scraped" in variant:
            node = groups[0].node
            assert isinstance(node, plainchant.Node)
            assert node.observer is not None
            scraping = asyncio.create_task(_scrape(node.observer.metrics_address, took))
        began = time.process_time()
        reading = [asyncio.create_task(_read(group, messages)) for group in groups]
        payloads = [b"x" * 100] * TOGETHER
        for _ in range(messages // TOGETHER):
            if one_by_one:
                for payload in payloads:
                    await groups[0].send(payload)
                await asyncio.sleep(0)
            else:
                await groups[0].send_many(payloads)
        await asyncio.gather(*reading)
        spent = time.process_time() - began
        if scraping is not None:
            scraping.cancel()
    return spent / messages


def measure(messages: int, rounds: int, *, one_by_one: bool) -> dict[str, Any]:
    """Microseconds a message, by variant, their ratio to ``without`` in the same round, and how long scrapes took."""
    messages -= messages % TOGETHER
    found: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    took: list[float] = []
    for number in range(rounds):
        order = list(VARIANTS)
        for variant in order[number % len(order) :] + order[: number % len(order)]:
            found[variant].append(asyncio.run(_round(variant, messages, one_by_one, took)))
    ratios = {
        variant: statistics.median(each / plain for each, plain in zip(costs, found["without"], strict=True))
        for variant, costs in found.items()
    }
    return {
        "messages": messages,
        "rounds": rounds,
        "calls": "send" if one_by_one else f"send_many of {TOGETHER}",
        "us": {variant: statistics.median(costs) * 1e6 for variant, costs in found.items()},
        "ratio": ratios,
        "scrape_ms": statistics.median(took) * 1000 if took else None,
    }


def _listen() -> None:
    """A tracer provider as a program would set one up, whose spans are made and kept."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    trace.set_tracer_provider(provider)


def main() -> None:
    parser = argparse.ArgumentParser(description="What it costs to be looked at.")
    parser.add_argument("--messages", type=int, default=64_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    _listen()
    for one_by_one in (True, False):
        result = measure(given.messages, given.rounds, one_by_one=one_by_one)
        if given.json:
            print(json.dumps(result))
            continue
        print(f"{result['calls']}, {result['messages']:,} messages, median of {result['rounds']} rounds:")
        for variant, cost in result["us"].items():
            print(f"  {variant:<30}{cost:8.2f} µs a message   x {result['ratio'][variant]:.3f}")
        if result["scrape_ms"] is not None:
            print(f"  a scrape under this load took {result['scrape_ms']:.1f} ms")


if __name__ == "__main__":
    main()
