"""A replica: state machines that follow one group's order, so that every member has the same ones.

A :class:`Replica` is the one reader of a group. It hands its *blocks*, each under a name that is the same at every member,
commands and views in the group's order. A block's state depends on these alone, so members that have read as far have the same
state.

**Commands.** :meth:`Block.execute` sends a command and waits, at most ``patience``, until it is applied here in its place in the
order; what ``apply`` returned *here* is the outcome. If the process is stopped meanwhile, it cannot know whether the others
applied the command: :class:`OutcomeUnknown`.

**What is certain.** Where the protocol does not promise ``uniform``, a process may apply a command, act on it and die before
another member has it: then no member ever applies it. Before acting outside the group, call :meth:`Replica.settle`: it waits
until every member of the view holds all that was applied here.

**Joiners** get all blocks' states at their first view (``state=True`` where the group is joined). **Views** come in the same
order as commands (:meth:`Block.changed`): a lock is released where its owner disappears, at every member.

**Parts that come together** (only where parts go on alone: ``newtop``) have states of their own. From the view in which they
meet, nothing is applied until the state of every part is known: one member of each part says it, in the group's order, and
commands and views are held meanwhile. Then all members do the same with the same states (:meth:`Block.merge`) and apply what was
held. If a speaker is gone from a later view, the next of its part speaks; a part that is gone altogether is left out, by all.
Parts may meet again meanwhile: merges wait in line, and a joiner gets the whole line with the state.

**The end.** When the process leaves, is stopped or excluded, or a block fails, the replica is over: waiting tasks and blocks are
told (:meth:`Block.ended`), and nothing can be executed any more.

**Rows.** For each block the replica notes in the trace what it applied and a digest of the state after it, for
``replica-agreement``; blocks note what is particular to them (``docs/blocks.md``). ``block`` says how to write a block,
``merging`` has the meeting of parts.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import count
from typing import Any, Final, Self

from ..core.model import PlainchantError, ProcessId, Reason, UsageError, View
from ..group import Group, Halted, Lost, Message, Receipt, Refused, State, StateRequest
from ..group.waiting import fail
from .block import Block, Command, CommandRefused, OutcomeUnknown, Part, ReplicaOver, decode, encode, within
from .merging import Merge, merge_in, merge_out, parts_of

PATIENCE: Final = 30.0  # seconds that a command may take, unless told otherwise
MARK: Final = b"\xc1blk"  # what messages of replicas begin with. (No MessagePack begins with this byte.)
_REPLICA: Final = ""  # the name under which replicas speak to each other; no block has it
_CATCH_UP: Final = "here"
_SAY: Final = "state"
_FAREWELL: Final = 1.0  # seconds that a last command may wait for room
_ORDERS: Final = ("identical", "total")  # promises of which one is needed: without them replicas differ
_MOST_HELD: Final = 1_000_000  # most commands that wait for parts to tell their state


class Replica:
    """Blocks over a group: ``async with Replica(group, book=Dictionary(), door=Lock()) as replica``. All members give the same
    blocks under the same names, and join with ``state=True`` if others join later. The replica alone reads the group, from its
    first event on; the state is there when the ``async with`` is entered. The program's own messages go to ``messages``, in their
    place."""

    def __init__(
        self, group: Group, *, patience: float = PATIENCE, messages: Callable[[Message], None] | None = None, **blocks: Block
    ) -> None:
        if not blocks:
            raise UsageError("a replica has blocks: give each a name, as in Replica(group, book=Dictionary())")
        if not any(order in group.guarantees for order in _ORDERS):
            text = f"in {group.name} members see messages in different orders, so replicas would differ"
            raise UsageError(f"{text}; choose a protocol and parameters that promise {' or '.join(_ORDERS)}")
        if patience <= 0:
            raise UsageError(f"the patience of a replica is {patience}; give it some seconds")
        self.group = group
        self.blocks = dict(sorted(blocks.items()))  # by name, in the same order at every member
        self.patience = patience
        self.view: View | None = None  # the last view that was read; blocks may not have come to it, while parts come together
        self.over: Reason | None = None  # why this process follows the group no longer
        self._messages = messages
        self._failure: BaseException | None = None
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._conditions: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._merges: list[Merge] = []
        self._has_state = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        for name, block in self.blocks.items():
            block.attach(self, name)

    async def __aenter__(self) -> Self:
        if self._reader is not None:
            raise UsageError("this replica was used before; make a new one, with new blocks, to come back")
        self._reader = asyncio.create_task(self._follow(), name=f"replica of {self.group.name}")
        try:
            await self.until(lambda: self._has_state)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self._say_farewell()
        await self._stop()
        if self._failure is not None and error is not self._failure:
            raise self._failure

    async def execute(self, block: str, body: Any, timeout: float | None = None) -> Any:
        """Sends a command to a block; returns its outcome when it has been applied here."""
        async with self._within(timeout, block):
            _, outcome = await self._through(block, body)
        return outcome

    def _within(self, timeout: float | None, block: str = _REPLICA) -> AbstractAsyncContextManager[None]:
        limit = self.patience if timeout is None else timeout
        return within(limit, lambda: self._no_outcome(block, limit))

    async def _through(self, block: str, body: Any) -> tuple[Receipt, Any]:
        """Sends a command through the order; its receipt and its outcome."""
        self._check()
        number = next(self._numbers)
        outcome = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            try:
                receipt = await self.group.send(MARK + encode([block, number, body]))
            except Refused as refused:
                raise ReplicaOver(refused.reason) from refused
            return receipt, await outcome
        finally:
            del self._waiting[number]

    def tell(self, block: str, body: Any) -> None:
        """Sends a command and does not wait for anything."""
        if self.over is None:
            self._spawn(self._say(MARK + encode([block, next(self._numbers), body])))

    async def catch_up(self) -> None:
        """Returns when all that was in the group's order before this call has been applied here."""
        await self.execute(_REPLICA, [_CATCH_UP])

    async def settle(self, *, timeout: float | None = None) -> None:
        """Returns when all that was applied here before this call is certain: whatever becomes of this process, every member of
        its view applies it too. One message a view, or none where the protocol promises ``uniform``."""
        self._check()
        if "uniform" in self.group.guarantees:
            return
        async with self._within(timeout):
            while not await self._held_by_all():
                pass  # a view has come: those in it are asked again

    async def _held_by_all(self) -> bool:
        """Sends a message through the order and waits until every member holds it; False if a view comes first."""
        view = self.group.view
        receipt, _ = await self._through(_REPLICA, [_CATCH_UP])
        stable = asyncio.ensure_future(receipt.stable())
        later = asyncio.ensure_future(self.until(lambda: self.group.view is not view, timeout=math.inf))
        try:
            await asyncio.wait((stable, later), return_when=asyncio.FIRST_COMPLETED)
            if stable.done():
                stable.result()
            return stable.done() and self.group.view is view
        except Lost as lost:
            self._check()
            if lost.reason.code == "no order":
                text = f"in {self.group.name} nobody tells when a message is held by all; choose another protocol"
                raise UsageError(text) from lost
            raise OutcomeUnknown(lost.reason) from lost
        finally:
            for task in (stable, later):
                task.cancel()
            await asyncio.gather(stable, later, return_exceptions=True)

    async def until(self, condition: Callable[[], bool], *, timeout: float | None = None) -> None:
        """Waits until something holds of the blocks; it is looked at whenever something was applied."""
        if condition():
            return
        self._check()
        entry = condition, asyncio.get_running_loop().create_future()
        self._conditions.append(entry)
        try:
            async with self._within(timeout):
                await entry[1]
        finally:
            if entry in self._conditions:
                self._conditions.remove(entry)

    async def ended(self) -> Reason:
        """Waits until this process follows the group no longer, and says why."""
        await self._ended.wait()
        assert self.over is not None
        return self.over

    @property
    def is_merging(self) -> bool:
        """Whether parts have come together that have not told each other their states yet: what is sent now is applied later."""
        return bool(self._merges)

    def _check(self) -> None:
        if self.over is not None:
            raise ReplicaOver(self.over) from self._failure

    def _no_outcome(self, block: str, limit: float) -> Reason:
        waiting = self.group.waiting()
        why = f" ({waiting.text})" if waiting is not None else ""
        if self._merges:
            silent = [part for place, part in enumerate(self._merges[0].parts) if place not in self._merges[0].said]
            why += f" (parts have come together, and these have not said their state: {silent})"
        what = f"a command to {block!r} has not been applied" if block else "what was waited for has not come"
        text = f"{what} at {self.group.me} in {limit:g} s{why}; wait longer, or see what the group is doing"
        return Reason("no outcome", text)

    async def _follow(self) -> None:
        try:
            async for batch in self.group.batches():
                for event in batch:
                    self._take(event)
                self._look()
        except Halted as halted:
            self._end(halted.reason)
        except asyncio.CancelledError:
            self._end(Reason("closed", f"{self.group.me} has closed its replica of {self.group.name}"))
            raise
        except Exception as error:
            self._failure = error
            self._end(Reason("failed", f"the replica of {self.group.name} at {self.group.me} failed: {error}"))
        else:
            self._end(Reason("left", f"{self.group.me} is out of {self.group.name}"))

    def _take(self, event: Message | View | StateRequest | State) -> None:
        if isinstance(event, View):
            self._see(event)
        elif isinstance(event, State):
            self._take_state(event)
        elif not self._has_state:
            text = f"{self.group.me} has joined {self.group.name}, which exists, and gets no state of it; join with state=True"
            raise UsageError(f"{text}, at all members, and let the replica read the group from the beginning")
        elif isinstance(event, StateRequest):
            self._give_state(event)
        else:
            self._hear(event)

    def _see(self, view: View) -> None:
        before, self.view = self.view, view
        if before is not None and before.group != view.group:
            raise UsageError(f"{before.group} is called {view.group} now; the group of a replica keeps its name")
        if not self._has_state:
            if before is None and self.group.formed:
                self._has_state = True
                self._change(view, "begin")
            return
        for merge in self._merges:
            merge.leave_out(view.members)
        if view.is_merge:
            self._merges.append(Merge(view, parts_of(view)))
        elif self._merges:
            self._hold(view)
        else:
            self._change(view, "view")
        self._go_on()

    def _hear(self, message: Message) -> None:
        if not message.payload.startswith(MARK):
            if self._messages is None:
                text = f"{message.sender} sends {message.group} what is no command of a block"
                raise UsageError(f"{text}; take such messages by Replica(group, messages=...)")
            self._messages(message)
            return
        block, number, body = decode(message.payload[len(MARK) :])
        if block == _REPLICA and body[0] == _SAY:
            self._learn(message.sender, body[1], body[2])
            self._go_on()
        elif self._merges:
            self._hold(message)
        else:
            self._apply(message, block, number, body)

    def _apply(self, message: Message, name: str, number: int, body: Any) -> None:
        outcome: Any = None
        refusal: CommandRefused | None = None
        if name != _REPLICA:
            block = self.blocks.get(name)
            if block is None:
                mine = f"{self.group.me} has {', '.join(self.blocks)}"
                raise UsageError(f"{message.sender} has a block {name!r}, and {mine}; give all members the same blocks")
            command = Command(body, message.sender, number, message)
            try:
                outcome = block.apply(command)
            except CommandRefused as refused:
                refusal = refused
            if self.group.is_traced:
                refused_row = {"refused": True} if refusal is not None else {}
                block.note("apply", message, command=number, digest=block.digest(), **refused_row, **block.told(command))
        waiting = self._waiting.get(number) if message.sender == self.group.me else None
        if waiting is None or waiting.done():
            return
        if refusal is not None:
            waiting.set_exception(refusal)
        else:
            waiting.set_result(outcome)

    def _change(self, view: View, event: str) -> None:
        for block in self.blocks.values():
            block.changed(view)
            self._note(block, event, at_view=view.number, members=list(view.members))

    def _note(self, block: Block, event: str, **detail: Any) -> None:
        if self.group.is_traced:
            block.note(event, digest=block.digest(), **detail, **block.told(None))

    def _look(self) -> None:
        for condition, waiting in self._conditions:
            if not waiting.done() and condition():
                waiting.set_result(None)

    def _give_state(self, request: StateRequest) -> None:
        """Takes a copy now; sending it is a task, so that reading goes on."""
        copy = encode([self._states(), [merge_out(merge) for merge in self._merges]])
        for block in self.blocks.values():
            self._note(block, "give", at_view=request.view, to=request.joiner)
        self._spawn(request.reply(copy))

    def _states(self) -> list[Any]:
        return [[name, block.kind, block.snapshot()] for name, block in self.blocks.items()]

    def _take_state(self, state: State) -> None:
        states, merges = decode(state.payload)
        self._check_blocks(state.donor, states)
        for name, _, snapshot in states:
            self.blocks[name].restore(snapshot)
            self._note(self.blocks[name], "take", at_view=state.view, donor=state.donor)
        self._merges = [merge_in(merge, self.group.name) for merge in merges]
        self._has_state = True
        self._go_on()

    def _check_blocks(self, other: ProcessId, states: Sequence[Any]) -> None:
        mine = {name: block.kind for name, block in self.blocks.items()}
        theirs = {name: kind for name, kind, _ in states}
        if mine != theirs:
            raise UsageError(f"{other} has blocks {theirs}, and {self.group.me} has {mine}; give all members the same blocks")

    def _hold(self, item: Message | View) -> None:
        held = self._merges[-1].held
        if len(held) >= _MOST_HELD:
            raise PlainchantError(f"{len(held)} commands of {self.group.name} wait for its parts to say their state; join again")
        held.append(item)

    def _learn(self, speaker: ProcessId, key: Any, states: list[Any]) -> None:
        """A part says its state. What concerns others, or was said already, is not news."""
        for merge in self._merges:
            if merge.key == key:
                self._check_blocks(speaker, states)
                merge.said.setdefault(merge.place_of(speaker), (speaker, states))

    def _go_on(self) -> None:
        """Does what can be done about merges, first come, first done."""
        while self._merges:
            merge = self._merges[0]
            self._speak(merge)
            if not merge.is_complete:
                return
            del self._merges[0]
            self._merge(merge)
            for item in merge.held:
                if isinstance(item, View):
                    self._change(item, "view")
                else:
                    self._apply(item, *decode(item.payload[len(MARK) :]))

    def _speak(self, merge: Merge) -> None:
        """Says this part's state, if it is on this process to say it: it is the first that is still there."""
        assert self.view is not None
        place = merge.place_of(self.group.me)
        first = next(member for member in merge.parts[place] if member in self.view.members)
        if first == self.group.me and not merge.spoken and place not in merge.said:
            merge.spoken = True
            self._spawn(self._say(MARK + encode([_REPLICA, 0, [_SAY, merge.key, self._states()]])))

    async def _say(self, payload: bytes) -> None:
        try:
            await self.group.send(payload)
        except Refused:
            return  # this process is on its way out, and another one speaks when it is gone

    def _merge(self, merge: Merge) -> None:
        said = [(merge.members_of(place), *merge.said[place]) for place in sorted(merge.said)]
        for position, block in enumerate(self.blocks.values()):
            parts = [Part(members, states[position][2], speaker) for members, speaker, states in said]
            block.merge(parts, merge.view)
            if self.group.is_traced:
                detail = {**block.told(None), **block.merged_detail(parts)}
                detail |= {"parts": [list(part.members) for part in parts], "speakers": [part.speaker for part in parts]}
                block.note("merge", at_view=merge.view.number, digest=block.digest(), **detail)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and self._failure is None:
            self._failure = task.exception()
            self._end(Reason("failed", f"the replica of {self.group.name} at {self.group.me} failed: {self._failure}"))

    def _end(self, reason: Reason) -> None:
        if self.over is not None:
            return
        self.over = reason
        for block in self.blocks.values():
            self._note(block, "end")
        for waiting in (*self._waiting.values(), *(waiting for _, waiting in self._conditions)):
            fail(waiting, OutcomeUnknown(reason))
        for block in self.blocks.values():
            block.ended(reason)
        self._ended.set()

    async def _say_farewell(self) -> None:
        """What blocks say last goes out before the process leaves; if there is no room for it, the others have to find out."""
        for name, block in self.blocks.items():
            body = block.farewell() if self.over is None and self._has_state else None
            if body is not None:
                try:
                    async with asyncio.timeout(_FAREWELL):
                        await self.group.send(MARK + encode([name, next(self._numbers), body]))
                except (TimeoutError, Refused):
                    return

    async def _stop(self) -> None:
        tasks = [task for task in (self._reader, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._end(Reason("closed", f"{self.group.me} has closed its replica of {self.group.name}"))
