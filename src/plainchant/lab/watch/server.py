"""The server: one page, and a stream of frames for each browser that looks at it.

Twice a second the source is asked what is new (in a thread, if that reads files), the picture takes it, and one frame is made for
each run that a browser shows. A client has room for one frame: one that was not taken is replaced, and the next is a full one, so
that nothing of the flow is missing. So memory is bounded by the number of clients, which is bounded too, and neither a source nor
a node waits for a browser.

**Access.** It listens on loopback unless told otherwise, without a password. Another page in the same browser could reach a
server on loopback by a name that it lets point there: so a request must name the host that the server was started with, or a
loopback address. There are only three GETs, which change nothing. The page may load nothing, run no script but its own (by its
hash) and stand in no frame.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ...core.model import UsageError
from .page import page, policy
from .picture import Picture
from .sources import Source
from .verdict import NoVerdict, Verdicts

if TYPE_CHECKING:
    from aiohttp import web

PAUSE: Final = 0.5
"""Seconds between two rounds."""
MOST_CLIENTS: Final = 32
PATIENCE: Final = 60.0
"""Seconds that a client may take for one frame."""
DEFAULT: Final = "127.0.0.1:8765"


def parse_place(text: str) -> tuple[str, int]:
    """``host:port``.

    >>> parse_place("127.0.0.1:8765"), parse_place("[::1]:80")
    (('127.0.0.1', 8765), ('::1', 80))
    """
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"{text!r} is no place to listen at; write it as 127.0.0.1:8765, with 0 for any free port")
    return host, int(port)


def is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


class _Client:
    """A browser: the frame that it is to get next."""

    def __init__(self, run: str | None) -> None:
        self.run = run
        self.frame: bytes | None = None
        self.wants_full = True
        self.skipped = 0
        self.news = asyncio.Event()

    def offer(self, frame: bytes) -> None:
        if self.frame is not None:
            self.skipped += 1
            self.wants_full = True
        self.frame = frame
        self.news.set()


class Watch:
    """A page about a source: ``async with Watch(source, "127.0.0.1:0") as watch: print(watch.url)``."""

    def __init__(self, source: Source, place: str = DEFAULT, *, verdicts: Verdicts | None = None, threaded: bool = True) -> None:
        self._source = source
        self._host, self._port = parse_place(place)
        self._verdicts = verdicts or NoVerdict("nobody was asked for one")
        self._threaded = threaded
        self.picture = Picture()
        self._lock = threading.Lock()
        """A round may be under way in a thread while somebody asks."""
        self._clients: set[_Client] = set()
        self._runner: Any = None
        self._task: asyncio.Task[None] | None = None
        self._rounds = 0
        self._was_over = False
        self.url = ""
        self.problem: BaseException | None = None
        """Why rounds have stopped, if they have."""

    async def __aenter__(self) -> Watch:
        try:
            from aiohttp import web
        except ImportError:
            raise UsageError("the page needs aiohttp, which is not installed: pip install 'plainchant[observe]'") from None
        app = web.Application(client_max_size=0)
        app.add_routes([web.get("/", self._page), web.get("/events", self._events), web.get("/state", self._state)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            place = f"{self._host}:{self._port}"
            raise UsageError(f"cannot listen at {place}: {error.strerror or error}; choose another with a free port") from error
        host, self._port = self._runner.addresses[0][:2]
        self.url = f"http://[{host}]:{self._port}/" if ":" in host else f"http://{host}:{self._port}/"
        self._task = asyncio.create_task(self._go())
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for client in self._clients:
            client.frame, client.wants_full, client.run = None, False, _CLOSED
            client.news.set()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def what(self) -> str:
        return self._source.what

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self._host)

    async def _go(self) -> None:
        while True:
            try:
                if self._threaded:
                    await asyncio.to_thread(self._round)
                else:
                    self._round()
                self._rounds += 1
            except Exception as error:  # the page stays and says so; a node that serves it must not die of it
                self.problem = error
                return self._send_frames()
            self._send_frames()
            await asyncio.sleep(PAUSE)

    def _round(self) -> None:
        facts = self._source.poll()
        with self._lock:
            self.picture.take(facts)
        self._verdicts.take(facts)
        if not facts and not self._was_over and self._source.told().get("over"):
            self._was_over = True
            self._verdicts.ended()

    def _send_frames(self) -> None:
        made: dict[tuple[str | None, bool], bytes] = {}
        for client in self._clients:
            key = (client.run, client.wants_full)
            made[key] = made.get(key) or self.frame(*key)
            client.wants_full = False
            client.offer(made[key])

    def state(self, run: str | None, full: bool) -> dict[str, Any]:
        """Everything that the page shows."""
        with self._lock:
            chosen = run if run in self.picture.runs else self.picture.latest()
            shown = self.picture.runs.get(chosen or "")
            told = self._source.told()
            if self.problem is not None:
                told["problems"] = [*told["problems"], f"reading has stopped: {type(self.problem).__name__}: {self.problem}"]
            run_told = None if shown is None else shown.to_json(self._source.now(), full=full)
            source = {"what": self._source.what, "source": told, "rounds": self._rounds}
            return {**source, "runs": list(self.picture.runs), "run": run_told, "verdict": self._verdicts.told(chosen)}

    def frame(self, run: str | None, full: bool) -> bytes:
        return f"data: {json.dumps(self.state(run, full), ensure_ascii=True)}\n\n".encode()

    def _refuse_strangers(self, request: web.Request) -> None:
        from aiohttp import web

        host = request.headers.get("Host", "")
        name = (host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host).strip("[]")
        if not (is_loopback(name) or name == self._host or (self._host in ("0.0.0.0", "::") and _is_address(name))):
            raise web.HTTPForbidden(text=f"this page is not known as {name!r}; ask for it by its address\n")

    async def _page(self, request: web.Request) -> web.Response:
        from aiohttp import web

        self._refuse_strangers(request)
        return web.Response(text=page(), content_type="text/html", headers={**_HEADERS, "Content-Security-Policy": policy()})

    async def _state(self, request: web.Request) -> web.Response:
        """The same as a full frame, for programs."""
        from aiohttp import web

        self._refuse_strangers(request)
        text = json.dumps(self.state(request.query.get("run"), True))
        return web.Response(text=text, content_type="application/json", headers=_HEADERS)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        self._refuse_strangers(request)
        if len(self._clients) >= MOST_CLIENTS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_CLIENTS} browsers look at this page; close one\n")
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        client = _Client(request.query.get("run") or None)
        self._clients.add(client)
        try:
            client.offer(self.frame(client.run, True))
            client.wants_full = False
            while client.run is not _CLOSED:
                await client.news.wait()
                client.news.clear()
                frame, client.frame = client.frame, None
                if frame is not None:
                    async with asyncio.timeout(PATIENCE):
                        await response.write(frame)
        except (TimeoutError, ConnectionError):
            pass  # the browser is gone, or takes nothing any more
        finally:
            self._clients.discard(client)
        return response


_CLOSED: Final = "\0closed"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@contextmanager
def served(source: Source, place: str, *, verdicts: Verdicts | None = None) -> Iterator[Watch]:
    """The page on a thread of its own, for programs that have no event loop to spare."""
    watch, failure = Watch(source, place, verdicts=verdicts), list[BaseException]()
    ready, stop, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        async with watch:
            ready.set()
            await stop.wait()

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(serve())
        except BaseException as error:
            failure.append(error)  # raised where the page is waited for
            if not isinstance(error, UsageError):
                raise
        finally:
            loop.close()
            ready.set()

    thread = threading.Thread(target=run, name="watch", daemon=True)
    thread.start()
    ready.wait()
    if failure:
        thread.join()
        raise failure[0]
    try:
        yield watch
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
