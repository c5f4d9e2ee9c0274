"""The verdict beside the page: a stream on Spark while processes run, the whole verification when all have ended.

It has a thread of its own, because Spark takes seconds to start and a page should not wait. What goes wrong there (no Java, no
extra, a stream that failed) becomes a sentence on the page; the rest of the page does not need it.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...core.model import PlainchantError
from ...trace.fact import Fact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .stream import State

LARGEST: Final = 256 * 1024 * 1024
"""Bytes of spools up to which the whole verification is done by itself when all is over."""
LOOK: Final = 0.2
"""Seconds between two looks at the stream."""


class Verdicts(Protocol):
    """What the page asks for verdicts."""

    def take(self, facts: Iterable[Fact]) -> None:
        """A round of facts."""

    def ended(self) -> None:
        """All processes have ended and everything is taken."""

    def told(self, run: str | None) -> dict[str, Any]:
        """How it stands with a run: ``state`` (off, starting, on, failed), ``why``, ``so_far`` and ``final``."""


class NoVerdict:
    """Nobody judges, and that is why."""

    def __init__(self, why: str) -> None:
        self.why = why

    def take(self, facts: Iterable[Fact]) -> None:
        pass

    def ended(self) -> None:
        pass

    def told(self, run: str | None) -> dict[str, Any]:
        return {"state": "off", "why": self.why, "so_far": None, "final": None}


class SparkVerdict:
    """``start`` it, give it facts, ``stop`` it. ``whole`` makes the trace to verify at the end and returns its place; None: the
    end is not verified here. ``state``: the directory of what was judged, which a cluster's machines share and a later verdict
    continues; without one it begins anew."""

    def __init__(
        self,
        whole: Callable[[Path], str] | None,
        *,
        master: str | None = None,
        memory: str | None = None,
        conf: Mapping[str, str] | None = None,
        state: Path | None = None,
    ) -> None:
        self._whole, self._master, self._memory, self._conf, self._place = whole, master, memory, conf, state
        self._lock = threading.Lock()
        self._stop, self._is_over, self._ready = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="verdict", daemon=True)
        self._phase, self._why = "starting", "Spark is starting, which takes some seconds"
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._state: State | None = None
        self._runs: dict[str, dict[str, Any]] = {}
        self._final: dict[str, Any] | None = None
        self._staged = 0

    def start(self) -> None:
        """Facts can be taken from now on; they wait on disk until Spark is there."""
        self._scratch = tempfile.TemporaryDirectory(prefix="plainchant-watch-", ignore_cleanup_errors=True)
        try:
            from .stream import State
        except ImportError as error:
            self._fail(f"the verdict needs Spark, which is not installed ({error}): pip install 'plainchant[lab]'")
            return
        self._state = State(self._place or Path(self._scratch.name, "state"))
        self._thread.start()

    def wait(self, seconds: float = 120.0) -> None:
        """Waits until Spark judges, or is known not to."""
        self._ready.wait(seconds)

    def stop(self) -> None:
        """Ends the stream and Spark; waits for both."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._leave()
        if self._scratch is not None:
            self._scratch.cleanup()

    def take(self, facts: Iterable[Fact]) -> None:
        with self._lock:
            if self._state is not None:
                self._staged += self._state.staging.write(facts)

    def ended(self) -> None:
        self._is_over.set()

    def told(self, run: str | None) -> dict[str, Any]:
        return {
            "state": self._phase,
            "why": self._why,
            "so_far": self._runs.get(run or ""),
            "final": self._final,
            "staged": self._staged,
            "ending": self._whole is not None and self._is_over.is_set() and self._final is None and self._phase == "on",
        }

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will be said: all is over and verified, or there is no verdict."""
        return self._final is not None or self._phase == "failed"

    def _run(self) -> None:
        try:
            from ..session import explained_session

            with explained_session(self._master, memory=self._memory, conf=self._conf, quick=True) as spark:
                self._judge(spark)
        except PlainchantError as error:
            self._fail(str(error))
        except Exception as error:  # whatever it is, the page goes on without a verdict and says why
            self._fail(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'it does not say more'}")

    def _fail(self, why: str) -> None:
        if not self._stop.is_set():
            self._phase, self._why = "failed", why
        self._ready.set()
        self._leave()

    def _leave(self) -> None:
        with self._lock:
            if self._state is not None:
                self._state.close()
            self._state = None  # nobody reads it any more

    def _judge(self, spark: SparkSession) -> None:
        from .stream import LiveVerdict

        assert self._state is not None
        with LiveVerdict(spark, self._state) as stream:
            self._why = "Spark is there; the stream is starting"
            while not self._stop.wait(LOOK):
                if not self._ready.is_set() and stream.is_warm:
                    self._phase, self._why = "on", ""
                    self._ready.set()
                self._runs = stream.runs
                if (problem := stream.problem) is not None:
                    raise RuntimeError(problem)
                judged = sum(told["events"] for told in self._runs.values())
                if self._whole is not None and self._is_over.is_set() and self._final is None and judged >= self._staged:
                    self._final = self._verify(spark)

    def _verify(self, spark: SparkSession) -> dict[str, Any]:
        """The whole verification, of the end too."""
        from ..verify import verify

        assert self._scratch is not None
        assert self._whole is not None
        try:
            verification = verify(spark, [self._whole(Path(self._scratch.name, "whole"))])
        except PlainchantError as error:
            return {"problem": str(error)}
        properties = {name: {**found.to_json(), "verdict": found.verdict} for name, found in verification.properties.items()}
        return {**verification.to_json(), "properties": properties, "warnings": list(verification.warnings)}


def collected(spools: Path, size: Callable[[], int]) -> Callable[[Path], str]:
    """How a directory of spools becomes a trace to verify."""

    def make(out: Path) -> str:
        from ...trace.collect import collect

        if size() > LARGEST:
            large = f"the spools are larger than {LARGEST // 2**20} MB, so the end is not verified by itself"
            raise PlainchantError(f"{large}: plainchant collect {spools} --out TRACE, then plainchant verify TRACE")
        with contextlib.suppress(FileExistsError):
            collect([spools], out)
        return str(out)

    return make
