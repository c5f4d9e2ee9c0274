"""Runs the scenario of a transcript and writes down what its members said and did.

Theory of operation
-------------------
A transcript file is a scenario (TOML), a line ``---``, and the transcript. Comment lines of the scenario may hold
directives: ``#: from 40ms`` and ``#: until 60ms`` (what comes earlier or later is not written down), ``#: hide Announce Ack``
(packets and kinds that are left out), ``#: tell block batch`` (the fields of packets that are written down; otherwise all are),
``#: matrix 10ms p2 g`` (newtop's Block Matrix at that process, as it is after that instant) and ``#: variant NaiveTimeout`` (a
protocol with one rule as it is printed). The run itself is always drained and verified: a transcript that reads well and breaks
a promise is no good, unless it is a variant's, which says what it breaks: ``#: breaks bounded``, and whether it waits for ever
for something: ``#: waits``.

Runs on common memory have ``#: rules extra=none`` for a variant, and may say how long operations take and what crashes after
them, in the words of ``plainchant.sim.scripted``: ``#: usual 1``, ``#: lasts b decide 2 = 0 0 1``, ``#: after s flag 1 = s``.
With ``memory.operations`` every operation is a line when it has its effect, by its name, the copy and how long it took.

A :class:`Tap` stands between host and protocol and logs every call that passes. A packet is one line, written when it
leaves; what became of its copies is added when they arrive::

      12.000ms  p1 -> p2 p3(lost) p4(+9ms) p5(twice)  Broadcast number=7 stable=3 allowed=0 entry=p2/1

``+9ms`` is by how much later (``-9ms``: earlier) it arrives than the network's plain delay. ``@2`` behind a packet's name is its
epoch, where that is not the first. Words of newtop's membership read as in the thesis: ``(i, suspect, {m, 4})``. What several
processes do at the same instant is one line. Where there are several groups, a line begins with the group's name. A data packet
of rtcast is called by what it carries (``Dummy``: nothing).
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from plainchant.core.engine import Engine, Host, Layer
from plainchant.core.model import MS, US, Batch, GroupId, Packet, ProcessId, Reason, Timer, View, format_duration, parse_duration
from plainchant.lab.properties import Verification, verify
from plainchant.protocols.dedos import packets as dedos_packets
from plainchant.protocols.dedos.box import CHANGE, Element
from plainchant.protocols.mailbox.variants import variant_of
from plainchant.protocols.newtop.delivery import RANK_BITS
from plainchant.protocols.newtop.packets import Word
from plainchant.protocols.newtop.part import Part
from plainchant.protocols.newtop.process import Process as Newtop
from plainchant.protocols.registry import describe
from plainchant.protocols.rtcast.packets import Change, Data, Decided, Query, Reclaim
from plainchant.scenario.load import parse
from plainchant.scenario.model import Scenario
from plainchant.sim import Summary, scripted
from plainchant.trace import TraceBuffer
from plainchant_papers.dedos.variants import without as dedos_without
from plainchant_papers.rtcast.variants import VARIANTS, bare_ring
from tests.protocols.newtop.members_by_hand import pairs
from tests.protocols.newtop.members_by_hand import told as in_words

SEPARATOR: Final = "---\n"
PACKET: Final = "packet"
_UNTOLD: Final = frozenset({"group", "epoch", "lineage", "members", "text", "why", "form"})
"""Fields that every packet has, or that a line about a view or a halt tells."""
_USUAL: Final = {
    "behind": 0,
    "floor": 0,
    "sender": "",
    "request": 0,
    "vector": (),
    "have": -1,
    "wanted": 0,
    "previous": 0,
    "slot": False,
    "asks": (),
    "at": 0,
    "partial": b"",
}
"""What is not worth saying while it is so."""
_PHASES_AN_EPOCH: Final = 1 << 20
_WIDE: Final = 100
"""Flow control with a bound like this plays no part in a transcript."""
_SAID_BY_A_PACKET: Final = frozenset({"null", "retransmit"})
"""Records that a packet of the same instant says better."""


@dataclasses.dataclass(slots=True)
class Line:
    """One event; ``to`` holds the fate of a packet's copies: how late each arrived, in order."""

    time: int
    process: ProcessId
    kind: str
    text: str
    to: dict[ProcessId, list[int]] | None = None


class Script:
    """What the taps of one run have heard, in order."""

    def __init__(self, scenario: Scenario, header: str) -> None:
        self.lines: list[Line] = []
        self.pictures: dict[tuple[ProcessId, GroupId], list[tuple[int, str]]] = {}
        """Block matrices that are wanted, at each instant after which they were different."""
        self._under_way: dict[int, tuple[Packet, Line]] = {}
        self._several = len(scenario.groups) > 1
        self._by_block = scenario.protocol == "newtop"
        self._by_stamp = scenario.protocol == "mailbox"
        self._told = frozenset(_directive(header, "tell"))
        for _, process, group in matrices(header):
            self.pictures[process, group] = [(0, "")]

    def where(self, group: GroupId | None) -> str:
        return f"{group}: " if group and self._several else ""

    def rank(self, rank: int | None) -> str:
        """A rank as people read it: of newtop's, the block; of mailbox's, the timestamp, counted from the mailbox's making, and
        the sender's place."""
        if rank is None:
            return ""
        if self._by_stamp:
            return f" as {rank // 64 / US:.10g}us/{rank % 64}"
        return f" as {rank >> RANK_BITS if self._by_block else rank}"

    def look(self, time: int, process: ProcessId, engine: Engine) -> None:
        """Keeps the matrices that are wanted, as they are now."""
        for (name, group), pictures in self.pictures.items():
            if name == process and isinstance(engine, Newtop) and group in engine.parts:
                picture = describe_part(engine.parts[group])
                if picture != pictures[-1][1]:
                    pictures.append((time, picture))

    def add(self, time: int, process: ProcessId, kind: str, text: str) -> None:
        self.lines.append(Line(time, process, kind, text))

    def sent(self, time: int, process: ProcessId, to: Sequence[ProcessId], packet: Packet) -> Packet:
        """Notes a packet; returns a copy, so that its arrivals are known even if an engine sends one object twice."""
        text = self.where(getattr(packet, "group", None)) + describe_packet(packet, self._told, process)
        line = Line(time, process, PACKET, text, {name: [] for name in to})
        copy = msgspec.structs.replace(packet)
        self.lines.append(line)
        self._under_way[id(copy)] = (copy, line)
        return copy

    def arrived(self, time: int, process: ProcessId, packet: Packet) -> None:
        _, line = self._under_way[id(packet)]
        assert line.to is not None
        line.to[process].append(time - line.time)


class Tap(Layer):
    """Passes everything on and writes it down."""

    def __init__(self, host: Host, inside: Callable[[Host], Engine], script: Script) -> None:
        self._script = script
        super().__init__(host, inside)

    def send(self, to: Sequence[ProcessId], packet: Packet, lan: int = 0) -> None:
        if to:
            self.host.send(to, self._script.sent(self.now, self.me, to, packet), lan)

    def receive(self, source: ProcessId, packet: Packet) -> None:
        self._script.arrived(self.now, self.me, packet)
        self.inner.receive(source, packet)
        self._script.look(self.now, self.me, self.inner)

    def ready(self, group: GroupId) -> None:
        self.inner.ready(group)
        self._script.look(self.now, self.me, self.inner)

    def expire(self, timer: Timer) -> None:
        self.inner.expire(timer)
        self._script.look(self.now, self.me, self.inner)

    def take(self, group: GroupId, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        batch = self.host.take(group, max_bytes, most, stream)
        if batch is not None:
            self._script.add(self.now, self.me, "send", self._script.where(group) + describe_batch(self.me, batch))
        return batch

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        script = self._script
        text = f"{script.where(group)}{describe_batch(sender, batch)}{script.rank(rank)}"
        script.add(self.now, self.me, "deliver", text)
        self.host.deliver(group, sender, batch, rank)

    def install(self, view: View) -> None:
        left = "".join(f"; {process}: {reason.text}" for process, reason in view.left.items())
        where = self._script.where(view.group)
        self._script.add(self.now, self.me, "view", f"{where}{view.number}: {' '.join(view.members)}{left}")
        self.host.install(view)

    def left(self, group: GroupId, rank: int | None = None) -> None:
        self._script.add(self.now, self.me, "left", f"as {rank}")
        self.host.left(group, rank)

    def record(self, kind: str, group: GroupId | None = None, **detail: Any) -> None:
        if kind == "decide":
            self._script.add(self.now, self.me, *describe_decision(detail))
        elif kind not in _SAID_BY_A_PACKET:
            self._script.add(self.now, self.me, kind, self._script.where(group) + describe_detail(detail))
        self.host.record(kind, group, **detail)

    def halt(self, reason: Reason) -> None:
        self._script.add(self.now, self.me, "halt", f"{reason.code}: {reason.text}")
        self.host.halt(reason)


# --- words ------------------------------------------------------------------------------------------------------------


def describe_packet(packet: Packet, told: frozenset[str] = frozenset(), source: ProcessId = "") -> str:
    """Its name and fields; if ``told`` is not empty, only those. A word of newtop's membership as the thesis writes it."""
    epoch = _epoch(getattr(packet, "epoch", 1))
    name = type(packet).__name__ + (f"@{epoch}" if epoch != 1 else "")
    fields = [field for field in packet.__struct_fields__ if field not in _UNTOLD and getattr(packet, field) != _USUAL.get(field)]
    if isinstance(packet, Word):
        name = in_words(source, packet)
        fields.remove("say")
    if isinstance(packet, Data):
        name = type(packet.word).__name__ if packet.word is not None else "Data" if packet.batch is not None else "Dummy"
        fields = [field for field in fields if field != "sender" or packet.sender != source]
    fields = [field for field in fields if not told or field in told]
    return " ".join([name, *(f"{field}={describe_value(field, getattr(packet, field), told)}" for field in fields)])


def _epoch(epoch: int) -> int:
    """The number of an epoch; one of dedos has its distributor in it too."""
    return dedos_packets.count_of(epoch) or epoch


def describe_value(field: str, value: Any, told: frozenset[str] = frozenset()) -> str:
    if field in ("epoch", "later") and isinstance(value, int):
        return str(_epoch(value))
    if isinstance(value, Element):
        return describe_element(value)
    if field in ("phase", "phase_over"):
        return f"{value // _PHASES_AN_EPOCH}.{value % _PHASES_AN_EPOCH}" if value else "0"
    if field in ("suspected_for", "silence", "patience"):
        return format_duration(value)
    if field in ("waited", "rotation", "present", "measured", "bound") and value is not None:
        return f"{value / MS:.5g}ms"
    if isinstance(value, Batch):
        return _range(value)
    if isinstance(value, Reason):
        return value.text
    if isinstance(value, Change):
        said = {"ring": value.ring, "out": value.out, "joined": value.joined, "left": value.left, "formed": value.formed}
        return f"{value.number}({' '.join(f'{key}={describe_value(key, what)}' for key, what in said.items() if what)})"
    if isinstance(value, Query | Decided | Reclaim):
        return f"({' '.join(f'{name}={describe_value(name, getattr(value, name))}' for name in value.__struct_fields__)})"
    if isinstance(value, Packet):
        return f"({describe_packet(value, told)})"
    if isinstance(value, Mapping):
        return "{" + pairs(value) + "}"
    if hasattr(value, "change"):
        if value.change is None:
            return describe_batch(value.sender, value.batch)
        return f"view{value.change.number}({','.join(value.change.members)})"
    if isinstance(value, tuple):
        return ",".join(":".join(map(_nested, item)) if isinstance(item, tuple) else _nested(item) for item in value) or "none"
    return repr(value) if isinstance(value, str) and (" " in value or not value) else str(value)


def describe_element(element: Element) -> str:
    """What an element of a mailbox of dedos carries."""
    if element.kind != CHANGE:
        return describe_batch(element.sender, element.batch)
    return f"change({','.join(dedos_packets.change_from_bytes(element.batch.body).members)})"


def _nested(value: Any) -> str:
    if isinstance(value, Element):
        return describe_element(value)
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)


def describe_part(part: Part) -> str:
    """A Block Matrix as the thesis draws it, and what is complete in it; for flow control, what is stable."""
    matrix = part.matrix
    complete = [str(block) for block in range(1, matrix.largest + 1) if matrix.is_complete(block)]
    incomplete = [str(block) for block in range(1, matrix.largest + 1) if not matrix.is_complete(block)]
    words = [f"complete: {' '.join(complete) or 'none'}; incomplete: {' '.join(incomplete) or 'none'}"]
    if part.flow.bound < _WIDE:
        stable, everywhere = (min(getattr(column, name) for column in matrix.members) for name in ("complete", "stable"))
        words.append(f"known to be stable up to {stable}, n²-stable up to {everywhere}")
    return "\n".join(["; ".join(words), *(f"{'':12}{line}" for line in matrix.picture().splitlines())])


def describe_batch(sender: ProcessId, batch: Batch) -> str:
    return f"{sender}/{_range(batch)}"


def _range(batch: Batch) -> str:
    return str(batch.first) if batch.count == 1 else f"{batch.first}-{batch.first + batch.count - 1}"


def describe_detail(detail: dict[str, Any]) -> str:
    """A record in a few words: its situation, its sentence, and its values."""
    words = [str(detail[name]) for name in ("situation", "stage", "text") if name in detail]
    words += [detail["reason"].text] if isinstance(detail.get("reason"), Reason) else []
    told = ("situation", "stage", "text", "reason", "evidence", "why")
    more = {key: _frozen(value) for key, value in detail.items() if key not in told and value != ""}
    values = [f"{key}={describe_value(key, value)}" for key, value in more.items()]
    return ", ".join([*words, *([" ".join(values)] if values else [])])


def describe_decision(detail: dict[str, Any]) -> tuple[str, str]:
    """What a receiver on common memory has decided, and of what."""
    message = f"{detail['sender']}/{detail['seq']}" if "seq" in detail else detail["of"]
    where = f", by copy {detail['copy'] + 1}" if detail["copy"] >= 0 else ""
    words = f"{message}{where}, {detail['after_ns'] / US:.6g}us after its timestamp"
    return ("accept" if detail["decision"] else "reject", words)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


# --- from a file to its transcript ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Played:
    """A scenario that was run: its transcript, and whether it is one that may be written down."""

    text: str
    summary: Summary
    verification: Verification
    breaks: tuple[str, ...]
    """The promises that a variant breaks."""
    waits: bool
    """Whether a variant waits for ever."""


def split(text: str) -> tuple[str, str]:
    """The scenario and the transcript of a file; one that is new has no transcript yet."""
    header, _, transcript = text.partition(SEPARATOR)
    return header, transcript


def play(file: Path) -> Played:
    """Runs the scenario of a transcript file."""
    header, _ = split(file.read_text())
    scenario = parse(header, file.name)
    script = Script(scenario, header)
    trace = TraceBuffer()
    variant = "".join(_directive(header, "variant"))
    make = bare_ring if variant else describe(scenario.protocol).make
    without = VARIANTS[variant]
    if given := _directive(header, "rules"):
        rules = {name: _rule(value) for name, value in (rule.split("=") for rule in given)}
        without = dedos_without(rules) if scenario.protocol == "dedos" else variant_of(rules)
    with without.applied(must_act=True):
        simulation = scripted.ScriptedSimulation(
            memory_script(header),
            scenario,
            trace=trace,
            make=lambda host, parameters: Tap(host, lambda inner: make(inner, parameters), script),
        )
        summary = simulation.run()
    table = trace.table()
    lines = _with_matrices(_with_facts(script.lines, table.to_pylist()), script, header)
    since = parse_duration("".join(_directive(header, "from")) or "0s")
    until = parse_duration("".join(_directive(header, "until")) or "1h")
    hidden = _directive(header, "hide")
    shown = [line for line in lines if since <= line.time < until and not _hidden(line, hidden)]
    waits = "#: waits\n" in header
    promises = simulation.description.promises(simulation.parameters, simulation.groups)
    verification = verify(table, [promise.name for promise in promises] if waits else None)
    return Played("".join(write(shown, scenario)), summary, verification, tuple(_directive(header, "breaks")), waits)


def memory_script(header: str) -> scripted.Script | None:
    """How long operations take and what crashes after them, where a transcript says so."""
    usual = _directive(header, "usual")
    lasts = {name: [float(share) for share in shares.split()] for name, shares in _settings(header, "lasts")}
    after = dict(_settings(header, "after"))
    return scripted.Script(lasts, after, float("".join(usual) or 0)) if usual or lasts or after else None


def _rule(value: str) -> Any:
    return {"true": True, "false": False}.get(value, value)


def matrices(header: str) -> list[tuple[int, ProcessId, GroupId]]:
    """What ``#: matrix`` asks for: when, at whom, of which group."""
    words = _directive(header, "matrix")
    return [(parse_duration(at), process, group) for at, process, group in zip(words[::3], words[1::3], words[2::3], strict=True)]


def _with_matrices(lines: list[Line], script: Script, header: str) -> list[Line]:
    """Puts in the matrices that are wanted: after whatever else happened at that instant."""
    pictures = []
    for at, process, group in matrices(header):
        picture = [text for time, text in script.pictures[process, group] if time <= at][-1]
        pictures.append(Line(at, process, "matrix", script.where(group) + picture))
    return sorted([*lines, *pictures], key=lambda line: line.time)


def _directive(header: str, name: str) -> list[str]:
    return [word for words in re.findall(rf"^#: {name} (.*)$", header, re.MULTILINE) for word in words.split()]


def _settings(header: str, name: str) -> list[tuple[str, str]]:
    return re.findall(rf"^#: {name} (.*?) = (.*)$", header, re.MULTILINE)


def _hidden(line: Line, hidden: list[str]) -> bool:
    name = re.split("[@ ]", re.sub("^[^ ]+: ", "", line.text))[0]
    return (name if line.kind == PACKET else line.kind) in hidden


def _with_facts(lines: list[Line], rows: list[dict[str, Any]]) -> list[Line]:
    """Puts in what only the host knows: faults and operations come before what else happened at that instant, crashes after."""
    before, after = [], []
    for row in rows:
        detail = msgspec.json.decode(row["detail"]) if row["detail"] else {}
        if row["kind"] == "fault":
            kind = detail.pop("fault")
            detail.pop("process", None)
            words = [kind, *(f"{key}={_fault_value(key, value)}" for key, value in detail.items())]
            before.append(Line(row["true_time"], row["process"], "fault", " ".join(words)))
        elif row["kind"] == "operation":
            found = ", which is dead" if detail["failed"] else ""
            text = f"copy {detail['copy'] + 1}{found}, {format_duration(row['true_time'] - detail['began'])}"
            before.append(Line(row["true_time"], row["process"], detail["operation"], text))
        elif row["kind"] == "crash" and detail["by"] == "fault":
            after.append(Line(row["true_time"], row["process"], "crash", ""))
    return sorted([*before, *lines, *after], key=lambda line: line.time)


def _fault_value(key: str, value: Any) -> str:
    if key in ("length", "delay"):
        return format_duration(value)
    if key == "identity":
        return "/".join(map(str, value))
    if key == "parts":
        return "|".join(",".join(part) for part in value)
    return str(value)


def write(lines: list[Line], scenario: Scenario) -> Iterator[str]:
    """The transcript, a line at a time; what several processes do at one instant in the same words is one line."""
    plain = scenario.network.delay.low
    together: dict[tuple[int, str, str], list[ProcessId]] = {}
    for line in lines:
        if line.kind != PACKET:
            together.setdefault((line.time, line.kind, line.text), []).append(line.process)
    for line in lines:
        if line.kind == PACKET:
            assert line.to is not None
            to = " ".join(name + ("" if late == [0] else _fate(late, plain)) for name, late in line.to.items())
            yield _line(line.time, f"{line.process} -> {to}", line.text)
        elif processes := together.pop((line.time, line.kind, line.text), None):
            yield _line(line.time, f"{' '.join(_counted(processes))} {line.kind}", line.text)


def _counted(processes: list[ProcessId]) -> Iterator[str]:
    for process, times in Counter(processes).items():
        yield f"{process}(x{times})" if times > 1 else process


def _fate(arrivals: list[int], plain: int) -> str:
    if not arrivals:
        return "(lost)"
    if len(arrivals) > 1:
        return "(twice)"
    return f"({(arrivals[0] - plain) / MS:+.4g}ms)" if arrivals[0] != plain else ""


def _line(time: int, who: str, what: str) -> str:
    return f"{time / MS:9.3f}ms  {who:<18}  {what}".rstrip() + "\n"
