"""``plainchant node``: one member of a group as a process, for programs of any language."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import warnings
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Argument, Exit

from ..core.model import SECOND, Reason, UsageError
from ..core.shipped import with_pages
from ..group import Group, GroupError, Halted, JoinTimeout
from ..live.config import EXAMPLE, NodeConfig, load_config
from ..live.pipe import UNREAD, Format, Input, JsonLines, Output, OutputClosed, Text, pass_in, pass_out
from .console import EXIT_INTERRUPTED, EXIT_UNEXPECTED, complain, guarded
from .options import SetOption, option

EXIT_NOT_LET_IN: Final = 3
_STANDARD_INPUT: Final = 0
_STANDARD_OUTPUT: Final = 1


@guarded
def node(
    file: Annotated[Path | None, Argument(metavar="CONFIG", help="The configuration, a TOML file; see --example.")] = None,
    me: Annotated[str | None, option("Which of the peers we are.", of="NAME")] = None,
    group: Annotated[str | None, option("Name of the group.", of="NAME")] = None,
    as_json: Annotated[bool, option("JSON lines, in and out, or text.", "--json/--text")] = False,
    trace: Annotated[Path | None, option("Record everything here, for `plainchant collect`.", of="DIR")] = None,
    watch: Annotated[str | None, option("Serve a page here that shows what this process does.", of="HOST:PORT")] = None,
    timeout: Annotated[str | None, option("How long the group may take to let us in.", of="DURATION")] = None,
    leave_at_eof: Annotated[bool, option("Leave when the input ends, instead of listening on.", "--leave-at-eof")] = False,
    key: Annotated[Path | None, option("The group's key: every packet is sealed. See `plainchant key`.", of="FILE")] = None,
    insecure: Annotated[bool, option("Run where other machines reach us, without a key.", "--insecure")] = False,
    sets: SetOption = None,
    example: Annotated[bool, option("Print a configuration to begin with and exit.", "--example")] = False,
) -> None:
    """Be a member of a group: lines from standard input are sent to it, what it delivers comes out.

    Everybody's messages and the changes of membership come out in the same order at all members. When the input ends, the
    process listens on. SIGTERM or Ctrl-C leaves the group; a second one ends the process at once.

    The exit status is 0 if the process left, 1 if it was halted (excluded, cut off from the majority, its output closed) or the
    group did not let it go, 2 if the input was wrong, 3 if the group did not let it in in time.

    With --json the input is lines such as {"send": "text"}, {"send_base64": "AAEC"} and {"leave": true}, and the output
    lines such as {"event": "message", "sender": "a", "seq": 1, "payload": "text"}; see docs/node.md.

    Without a key the process is only at an address that no other machine reaches (127.0.0.1), unless --insecure says that this
    is meant; see docs/security.md.

    Examples:

      plainchant node --example
      plainchant node bank.toml --me a
      plainchant node bank.toml --me a --key bank.key
      plainchant node bank.toml --me b --json --trace spools --set parameters.resilience=1
    """
    if example:
        print(with_pages(EXAMPLE), end="")
        return
    if file is None:
        raise UsageError("which configuration? Name a file; `plainchant node --example` prints one to begin with")
    given = {"me": me, "group": group, "trace": trace, "watch": watch, "timeout": timeout, "key": key}
    given["insecure"] = "true" if insecure else None
    overrides = [*(sets or ()), *(f"{key}={value}" for key, value in given.items() if value is not None)]
    config = load_config(file, overrides)
    with warnings.catch_warnings():
        warnings.showwarning = _tell_warning
        status = asyncio.run(_Session(config, JsonLines() if as_json else Text(), leave_at_eof).run())
    if status:
        raise Exit(status)


def _tell_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    """A warning as a sentence, and not as a place in our source."""
    complain(f"warning: {message}")


class _Session:
    """One membership, from the first hello to the exit status."""

    def __init__(self, config: NodeConfig, form: Format, leave_at_eof: bool) -> None:
        self._config = config
        self._form = form
        self._leave_at_eof = leave_at_eof
        self._patience = config.leave_timeout / SECOND
        self._stop = asyncio.Event()
        self._is_member = False
        self._signalled = False

    async def run(self) -> int:
        """Lives the member's life and returns the exit status."""
        output = Output(_STANDARD_OUTPUT)
        life = asyncio.create_task(self._live(output))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, life)
        status, reason = await self._outcome(life)
        if status:
            complain(reason.text)
        if reason.code == "output":
            return status
        try:
            async with asyncio.timeout(self._patience):
                await output.write(self._form.end(reason))
        except (TimeoutError, OutputClosed):
            complain("nobody reads the output, and its end was not written")
            return EXIT_UNEXPECTED
        return status

    def _on_signal(self, life: asyncio.Task[None]) -> None:
        """The first one leaves, or gives up joining; the second ends the process, wherever it hangs."""
        if self._signalled:
            os._exit(EXIT_INTERRUPTED)
        self._signalled = True
        if self._is_member:
            self._stop.set()
        else:
            life.cancel()

    async def _outcome(self, life: asyncio.Task[None]) -> tuple[int, Reason]:
        """How it ended: exit status and reason."""
        me, group = self._config.me, self._config.group
        try:
            await life
        except asyncio.CancelledError:
            return 0, Reason("interrupted", f"{me} was stopped before {group} let it in")
        except JoinTimeout as error:
            return EXIT_NOT_LET_IN, error.reason
        except GroupError as error:
            return EXIT_UNEXPECTED, error.reason
        except OutputClosed as error:
            return EXIT_UNEXPECTED, Reason("output", f"{error}; {me} has left {group}")
        return 0, Reason("left", f"{me} has left {group}")

    async def _live(self, output: Output) -> None:
        """Passes lines in and out until the group is over or it is time to leave, and leaves."""
        async with self._config.join(unread=UNREAD) as group:
            self._is_member = True
            await self._serve(group, output)

    async def _serve(self, group: Group, output: Output) -> None:
        out = asyncio.create_task(pass_out(group, output, self._form))
        into = asyncio.create_task(self._pass_in(group, output))
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((out, stop), return_when=asyncio.FIRST_COMPLETED)
            into.cancel()
            if not out.done():
                await self._leave(group)
                if group.members and not group.changes:
                    return  # it is not at rest, and the end of the membership says why
                await asyncio.wait((out,), timeout=self._patience)
            if not out.done():
                raise OutputClosed("nobody reads the output, and its last lines are lost")
            out.result()
        finally:
            for task in (out, into, stop):
                task.cancel()

    async def _pass_in(self, group: Group, output: Output) -> None:
        try:
            wants_to_leave = await pass_in(group, Input(_STANDARD_INPUT), output, self._form)
        except OutputClosed:
            wants_to_leave = True
        if wants_to_leave or self._leave_at_eof:
            self._stop.set()

    async def _leave(self, group: Group) -> None:
        """Leaves while the output goes on. If that takes too long, the end of the membership tries without the output."""
        with contextlib.suppress(TimeoutError, Halted):
            async with asyncio.timeout(self._patience):
                await group.finish()
