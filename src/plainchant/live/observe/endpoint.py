"""Where Prometheus asks: ``GET /metrics``, answered on the node's own event loop.

All figures are read at once, between two turns of the loop, so they are of one instant; that is copying numbers. Making text of
them takes longer, so it is done piece by piece (:data:`PIECE` samples), with turns of the loop between: a node with many groups
does not stop for a scrape. :data:`AT_ONCE` scrapes are answered at a time, others are told to come again. There is no thread:
when the node closes, the socket and its connections do.

The address is on loopback unless another is named: figures tell names of groups and processes to every reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ...core.model import UsageError
from ...core.plugins import need
from ..addresses import format_address, parse_address
from ..transport import Address
from .metrics import NodeCollector

LOOPBACK: Final = "127.0.0.1"
AT_ONCE: Final = 4
PIECE: Final = 20  # samples, of which a histogram is one, that are made text of in one turn of the loop
END_WITHIN: Final = 1.0  # seconds that a scrape has to end when the node closes
_END: Final = b"# EOF\n"


def where(text: str) -> Address:
    """The address that is meant; a port alone is one of this machine's own.

    >>> where("9464"), where(":9464"), where("0.0.0.0:9464")
    (('127.0.0.1', 9464), ('127.0.0.1', 9464), ('0.0.0.0', 9464))
    """
    port = text.strip().removeprefix(":")
    try:
        return parse_address(f"{LOOPBACK}:{port}" if port.isdecimal() else text)
    except UsageError as error:
        raise UsageError(f'metrics are found at an address or a port, such as "{LOOPBACK}:9464" or "9464": {error}') from None


class Endpoint:
    """Answers with what a collector has, and with figures of the whole process."""

    def __init__(self, collector: NodeCollector, bind: Address) -> None:
        client = need("prometheus_client", "metrics need", "observe")
        self._web = need("aiohttp.web", "metrics need", "observe")
        self._choose = need("prometheus_client.exposition", "metrics need", "observe").choose_encoder
        self._registry = client.CollectorRegistry()
        self._collector = collector
        client.ProcessCollector(registry=self._registry)
        client.PlatformCollector(registry=self._registry)
        self.address = bind
        self._runner: Any = None
        self._answering = 0

    async def open(self) -> None:
        """Binds the address; from now on scrapes are answered."""
        web = self._web
        application = web.Application()
        application.router.add_get("/metrics", self._scrape)
        application.router.add_get("/", self._point)
        runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=END_WITHIN)
        await runner.setup()
        try:
            await web.TCPSite(runner, *self.address).start()
        except OSError as error:
            await runner.cleanup()
            text = f"metrics cannot be served at {format_address(self.address)}: {error.strerror or error}"
            raise UsageError(f"{text}; is something else there? Name another port, or an address of this machine") from error
        self._runner = runner
        self.address = runner.addresses[0][:2]

    async def close(self) -> None:
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def _point(self, request: Any) -> Any:
        return self._web.Response(text="figures of a plainchant node: /metrics\n")

    async def _scrape(self, request: Any) -> Any:
        if self._answering >= AT_ONCE:
            return self._web.Response(status=503, text="too many scrapes at once; come again\n", headers={"Retry-After": "1"})
        self._answering += 1
        try:
            encode, content_type = self._choose(request.headers.get("Accept", ""))
            body = await self.text(encode)
        finally:
            self._answering -= 1
        return self._web.Response(body=body, headers={"Content-Type": content_type})

    async def text(self, encode: Callable[[Any], bytes]) -> bytes:
        """All figures of this instant as text, with turns of the loop between its pieces."""
        readings, others = self._collector.read(), list(self._registry.collect())
        parts = []
        for metric, samples in readings:
            for at in range(0, max(1, len(samples)), PIECE):
                part = encode(_Families([self._collector.family(metric, samples[at : at + PIECE])])).removesuffix(_END)
                # What samples mean is said once.
                parts += [line for line in part.splitlines(keepends=True) if not at or not line.startswith(b"#")]
                await asyncio.sleep(0)
        last = encode(_Families(others))
        return b"".join([*parts, last])


class _Families:
    """A registry with these families, because that is what encoders take."""

    def __init__(self, families: list[Any]) -> None:
        self._families = families

    def collect(self) -> list[Any]:
        return self._families
