"""``plainchant demo``: five members, loss, a crash of the one that matters most, the story of it, the same for real, groups that
overlap, a network that falls apart and heals, messages with deadlines, mailboxes in common memory, nodes that share them, and the
laboratory."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.table import Table

from plainchant.cli.console import EXIT_UNEXPECTED, guarded, output, plain_table
from plainchant.cli.live import execute as execute_live
from plainchant.cli.live import tell as tell_live
from plainchant.cli.output import staged
from plainchant.cli.run import states, tell_verification
from plainchant.cli.running import Result, execute
from plainchant.cli.spark import spark_for
from plainchant.cli.verdict import print_outcomes, print_violations
from plainchant.core.model import format_duration
from plainchant.core.names import place_of
from plainchant.lab.show import decode, in_order
from plainchant.protocols.registry import describe
from plainchant.scenario import find, load
from plainchant.scenario.model import Scenario
from plainchant.trace import read

from . import story
from .demo_blocks import built_upon

_SCENARIO: Final = "demo"
_SHOWN: Final = 10
"""Messages of the overlapping groups that are shown in their one order."""
_SEEDS: Final = "0:40"
_ALWAYS: Final = {"scenario.toml", "summary.json", "trace"}


@guarded
def demo(
    out: Annotated[Path, typer.Option(help="Directory for the results; one of an earlier demo is replaced.")] = Path("demo-out"),
    seed: Annotated[int | None, typer.Option(help="Another seed is another story.", min=0)] = None,
) -> None:
    """Show a group that survives loss and a crash, and the laboratory that proves it.

    Five members in the simulator, a lossy network, a sequencer that crashes in the middle of a broadcast, and a
    readable account of what happened. The same with five real processes on this machine. Five groups that overlap in a ring
    and a chain, with one order over all of them. A network that falls into three parts, which go on and come together again.
    A token ring that promises deadlines and keeps them. Mailboxes in common memory, of which all but one die. Nodes whose
    processes share mailboxes, and of which one dies with all that is on it. A lock that survives whoever holds it. Then forty
    runs with other faults each, as tasks on Spark, all verified; and a page for the browser of each.

    Examples:

      plainchant demo

      plainchant demo --seed 7 --out story-7
    """
    scenario = load(find(_SCENARIO), [f"seed={seed}"] if seed is not None else ())
    with staged(out, replace=_is_a_demo) as directory:
        result = execute(scenario, directory, verify_it=True, command="demo")
        _account(result)
        lived = _for_real(result.scenario, directory / "live")
        simulated = [_simulated(part, directory / part.folder) for part in _SIMULATED]
        built = built_upon()
        swept = _laboratory(directory, out)
    _onwards(result, out)
    if not (result.passes and lived and all(simulated) and built and swept):
        raise typer.Exit(EXIT_UNEXPECTED)


def _is_a_demo(target: Path) -> bool:
    """Whether an earlier demo made this directory: then, and only then, it may be replaced."""
    try:
        summary = json.loads((target / "summary.json").read_text())
    except (OSError, ValueError):
        return False
    names = {entry.name for entry in target.iterdir()}
    return (
        isinstance(summary, dict) and summary.get("command") == "demo" and _ALWAYS <= names <= _ALWAYS | {*_PARTS, "report.html"}
    )


def _for_real(scenario: Scenario, directory: Path) -> bool:
    """The same scenario with real processes; True if it kept its promises."""
    console = output()
    console.print("\n[bold]And for real?[/bold]")
    console.print(
        f"The same file with {len(scenario.members)} processes on this machine, over UDP: packets are lost on purpose, and "
        f"{scenario.fault[0].process} is killed with SIGKILL while it sends, and started again.\n",
        markup=False,
    )
    directory.mkdir()
    result = execute_live(scenario, directory, verify_it=True, options={"given": {"resilience"}})
    moments = list(story.tell(read(directory / "trace").table))
    for moment in moments:
        console.print(f"{(moment.time - moments[0].time) / 1e6:9.1f} ms  {moment.text}", markup=False)
    console.print()
    tell_live(result, console)
    return result.passes


# --- the simulated parts --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """A shipped scenario that the demo runs in the simulator, with a question, a few words and a table of what happened."""

    folder: str
    scenario: str
    question: str
    words: Callable[[Scenario], str]
    table: Callable[[Scenario, pa.Table], Table]


def _simulated(part: _Part, directory: Path) -> bool:
    """Runs a part and shows what happened; True if it kept its promises."""
    console = output()
    scenario = load(find(part.scenario))
    console.print(f"\n[bold]{part.question}[/bold]")
    console.print(f"{part.words(scenario)}\n", markup=False)
    directory.mkdir()
    result = execute(scenario, directory, verify_it=True, command="demo")
    console.print(part.table(scenario, result.table))
    console.print()
    if result.verification is not None:
        tell_verification(result.verification, console)
    return result.passes


def _words_overlapping(scenario: Scenario) -> str:
    groups = "; ".join(f"{name}: {', '.join(members)}" for name, members in scenario.groups.items())
    return (
        f"{groups}. red, green and blue are a ring, and a chain hangs on it. The protocol {scenario.protocol} has one order over "
        "all of them, without a member that numbers for the others, on a network that loses "
        f"{scenario.network.loss:.0%} of all packets. A stretch of it, and which delivery of each process every message was:"
    )


def _words_parted(scenario: Scenario) -> str:
    (fault,) = scenario.fault
    return (
        f"{', '.join(scenario.members)} are a group under {scenario.protocol}. After {format_duration(fault.at)} nothing gets "
        f"through between {' | '.join(', '.join(part) for part in fault.parts)}. Each part agrees by itself who is gone, and "
        f"goes on; {format_duration(fault.length)} later the network is whole again:"
    )


def _words_timed(scenario: Scenario) -> str:
    dies = next(fault for fault in scenario.fault if fault.kind == "crash")
    return (
        f"{', '.join(scenario.members)} are a ring under {scenario.protocol}: they take turns. What has a deadline is asked for "
        "before it is sent, and promised, or refused with the deadline that could be promised. After "
        f"{format_duration(dies.at)} {dies.process} dies in the middle of a broadcast; later it comes back:"
    )


def _words_shared(scenario: Scenario) -> str:
    return (
        f"{', '.join(scenario.members)} write into a mailbox in common memory, and read from there, under {scenario.protocol}. "
        f"It has {scenario.parameters['copies']} copies, each in a memory module of its own, and {len(scenario.fault)} modules "
        "die while everybody sends as fast as it can. How long a Send and a delivery took at the most, of what they may take:"
    )


def _words_nodes(scenario: Scenario) -> str:
    nodes = dict.fromkeys(name.partition(".")[0] for name in scenario.members)
    return (
        f"{', '.join(scenario.members)} are on {len(nodes)} nodes, under {scenario.protocol}. Those of a node share a mailbox, "
        "one of them relays, and one relay numbers for all. The network between them loses "
        f"{scenario.network.loss:.0%} of all packets. What crashed, who numbered then, and how long a message took at the most "
        "to be everywhere:"
    )


def _one_order(scenario: Scenario, rows: pa.Table) -> Table:
    """Messages from the middle of a run by their rank, with the place that each has among a process's deliveries."""
    delivered = rows.filter(pc.equal(rows["kind"], "deliver")).select(["process", "group", "sender", "seq", "rank"]).to_pylist()
    counts = dict.fromkeys(scenario.members, 0)
    places: dict[tuple[int, str, str, int], dict[str, int]] = {}
    for row in delivered:
        counts[row["process"]] += 1
        message = (row["rank"], row["group"], row["sender"], row["seq"])
        places.setdefault(message, {})[row["process"]] = counts[row["process"]]
    ordered = sorted(places)
    middle = len(ordered) // 2
    table = plain_table("message", *scenario.members)
    for message in ordered[middle : middle + _SHOWN]:
        _, group, sender, seq = message
        table.add_row(f"{group}/{sender}/{seq}", *(str(places[message].get(name, "")) for name in scenario.members))
    return table


def _views(scenario: Scenario, rows: pa.Table) -> Table:
    """Each view once, when it was first installed, with what came together in it and what its members delivered in it."""
    views: dict[tuple[int, tuple[str, ...]], tuple[int, str]] = {}
    delivered: dict[tuple[int, tuple[str, ...]], set[tuple[str, int]]] = {}
    current: dict[str, tuple[int, tuple[str, ...]]] = {}
    for row in in_order(rows).to_pylist():
        if row["kind"] == "view":
            current[row["process"]] = view = (row["view"], tuple(row["members"]))
            parts = decode(row["detail"]).get("parts", ())
            views.setdefault(view, (row["true_time"], " | ".join(" ".join(part) for part in parts)))
        elif row["kind"] == "deliver":
            delivered.setdefault(current[row["process"]], set()).add((row["sender"], row["seq"]))
    table = plain_table("time", "view", "members", "came together", "messages")
    for view, (time, parts) in views.items():
        number, members = view
        table.add_row(f"{time / 1e6:.1f} ms", str(number), " ".join(members), parts, str(len(delivered.get(view, ()))))
    return table


def _promised(scenario: Scenario, rows: pa.Table) -> Table:
    """By member and size: what it asked for, the answer, what it sent, and by how much the latest of its deliveries was early."""
    asked: dict[tuple[str, int], dict[str, Any]] = {}
    due: dict[tuple[str, int], tuple[int, tuple[str, int]]] = {}
    early: dict[tuple[str, int], int] = {}
    for row in in_order(rows).to_pylist():
        kind, process = row["kind"], place_of(row["process"])
        if kind in ("admit", "reject"):
            detail = decode(row["detail"])
            asked.setdefault((process, detail["size"]), detail)
        elif kind == "send" and row["deadline"] is not None:
            due[row["sender"], row["seq"]] = row["deadline"], (process, row["size"])
        elif kind == "deliver" and (row["sender"], row["seq"]) in due:
            deadline, stream = due[row["sender"], row["seq"]]
            early[stream] = min(deadline - row["true_time"], early.get(stream, deadline))
    sent = Counter(stream for _, stream in due.values())
    table = plain_table("member", "asks for", "within", "answer", "sent", "early by")
    for stream, detail in sorted(asked.items()):
        process, size = stream
        often = f"every {_ms(detail['period_ns'])}" if detail["period_ns"] else "now and then"
        answer = "yes" if "term" not in detail else f"no, but {_ms(detail['nearest_ns'])}" if detail["nearest_ns"] else "no"
        kept = f"{_ms(early[stream])} or more" if stream in early else ""
        table.add_row(process, f"{size:,} B {often}", _ms(detail["deadline_ns"]), answer, str(sent[stream]), kept)
    return table


def _ms(time: int) -> str:
    return f"{time / 1e6:.0f} ms"


def _in_time(scenario: Scenario, rows: pa.Table) -> Table:
    """From one crash of a module to the next: messages, and the longest times of those that were sent then."""
    ordered = in_order(rows).to_pylist()
    crashes = sorted({row["true_time"] for row in ordered if row["kind"] == "fault" and "module" in decode(row["detail"])})
    sent: dict[tuple[str, int], int] = {}
    took: list[list[int]] = [[] for _ in range(len(crashes) + 1)]
    delivered: list[list[int]] = [[] for _ in took]
    bounds: dict[str, int] = {}
    for row in ordered:
        kind, message = row["kind"], (row["sender"], row["seq"])
        if kind == "start":
            bounds = decode(row["detail"])["bounds"]
        elif kind == "send":
            sent[message] = row["true_time"]
        elif kind == "sent":
            took[bisect_right(crashes, sent[message])].append(decode(row["detail"])["took_ns"])
        elif kind == "deliver":
            delivered[bisect_right(crashes, sent[message])].append(row["true_time"] - sent[message])
    table = plain_table("from", "copies left", "deliveries", "longest Send", "longest delivery")
    for number, start in enumerate((0, *crashes)):
        longest = ((took[number], bounds["send"]), (delivered[number], bounds["deliver"]))
        words = (f"{max(times) / 1e6:.2f} of {bound / 1e6:.2f} ms" for times, bound in longest)
        table.add_row(_ms(start), str(scenario.parameters["copies"] - number), str(len(delivered[number])), *words)
    return table


def _after_crashes(scenario: Scenario, rows: pa.Table) -> Table:
    """From one fault to the next: the last distributor, messages that were sent then, and the longest delivery of one of them."""
    faults = [(0, "")]
    for fault in scenario.fault:
        what = f"mailbox {fault.module} of {fault.node}" if fault.kind == "module" else fault.process or fault.node
        faults.append((fault.at, f"{what} {'comes back' if fault.kind == 'restart' else 'dies'}"))
    times = [at for at, _ in faults]
    sent: dict[tuple[str, int], int] = {}
    longest = [0] * len(faults)
    distributors: list[str] = ["" for _ in faults]
    for row in in_order(rows).to_pylist():
        place = bisect_right(times, row["true_time"]) - 1
        if row["kind"] == "send":
            sent[row["sender"], row["seq"]] = row["true_time"]
        elif row["kind"] == "deliver":
            since = sent[row["sender"], row["seq"]]
            begun = bisect_right(times, since) - 1
            longest[begun] = max(longest[begun], row["true_time"] - since)
        elif row["kind"] == "elect" and decode(row["detail"]).get("stage") == "begin":
            distributors[place:] = [row["process"]] * (len(faults) - place)
    counts = Counter(bisect_right(times, time) - 1 for time in sent.values())
    table = plain_table("from", "what happens", "numbers in the end", "messages", "longest delivery")
    for number, (start, what) in enumerate(faults):
        table.add_row(_ms(start), what, distributors[number], str(counts[number]), f"{longest[number] / 1e6:.1f} ms")
    return table


_SIMULATED: Final = (
    _Part("overlapping", "newtop-overlapping", "And groups that overlap?", _words_overlapping, _one_order),
    _Part("parted", "newtop-partition", "And if the network falls apart?", _words_parted, _views),
    _Part("timed", "rtcast-realtime", "And if it has to be in time?", _words_timed, _promised),
    _Part("shared", "mailbox-modules", "And without a network?", _words_shared, _in_time),
    _Part("nodes", "dedos-crashes", "And with many processes on few machines?", _words_nodes, _after_crashes),
)
_PARTS: Final = ("live", *(part.folder for part in _SIMULATED), "sweep")


# --- the laboratory, and the frame ----------------------------------------------------------------------------------


def _laboratory(directory: Path, out: Path) -> bool:
    """A small sweep, and reports that name where results will be; True if all passes, or if the laboratory is not installed."""
    console = output()
    console.print("\n[bold]Is it always right?[/bold]")
    if importlib.util.find_spec("pyspark") is None:
        console.print("The laboratory, which would find out, is not installed: pip install 'plainchant[lab]'", markup=False)
        return True
    from plainchant.lab.report import page, subject_at
    from plainchant.lab.sweep import define
    from plainchant.lab.sweep import sweep as perform_sweep

    definition = define("sweep-faults", _SEEDS, keep="violations")
    console.print(f"{definition.runs} runs with other faults each, as tasks on Spark, each verified:\n", markup=False)
    with spark_for(None, None, quick=True) as spark:
        result = perform_sweep(spark, definition, directory / "sweep")
    counts = ", ".join(f"{count:,} {'hold' if verdict == 'holds' else verdict}" for verdict, count in result.verdicts.items())
    console.print(f"{definition.runs} runs, {result.events:,} events: {counts}\n", markup=False)
    print_outcomes(console, result.verification.properties)
    print_violations(console, result.verification.violations, most=3, replay=result.replays.__getitem__)
    for part in ("", *_PARTS):
        subject = subject_at(str(directory / part), most=10, shown=str(out / part))
        (directory / part / "report.html").write_text(page(subject), encoding="utf-8")
    return result.passes


def _account(result: Result) -> None:
    scenario, summary = result.scenario, result.summary
    console = output()
    names = ", ".join(scenario.members)
    console.print("[bold]The group[/bold]")
    console.print(
        f"{names} are a group under the protocol {scenario.protocol}. {describe(scenario.protocol).about} "
        f"{scenario.members[0]} numbers at first. The network loses {scenario.network.loss:.0%} of all packets, "
        "and all of this happens in virtual time, decided by one seed "
        f"({scenario.seed}): run it again and it happens again.\n",
        markup=False,
    )
    console.print("[bold]What happened[/bold]")
    for moment in story.tell(result.table):
        console.print(f"{moment.time / 1e6:9.1f} ms  {moment.text}", markup=False)
    console.print(
        f"\n{summary.messages_sent:,} messages were sent and {summary.messages_delivered:,} times delivered, with "
        f"{summary.packets_sent:,} packets, of which {summary.packets_lost:,} were lost on the way to somebody. "
        f"At the end: {states(result)}.\n",
        markup=False,
    )
    console.print("[bold]Was it right?[/bold]")
    if result.verification is not None:
        tell_verification(result.verification, console)


def _onwards(result: Result, out: Path) -> None:
    console, scenario = output(), result.scenario
    if (out / "report.html").exists():
        console.print("\n[bold]Pages for your browser[/bold]")
        for page in (out, *(out / part for part in _PARTS)):
            console.print(f"  {page / 'report.html'}", markup=False)
    console.print("\n[bold]Where to go next[/bold]")
    for command, why in (
        (f"plainchant explain {out} --message g/{scenario.members[1]}/1", "the life of a message"),
        (f"plainchant verify {out}", "the same verification, for traces of any size"),
        ("plainchant sweep sweep-faults --seeds 0:1000 --out faults", "a thousand runs"),
        (f"plainchant trace {out} --kind view", "who was in the group, and when"),
        (f"plainchant explain {out}/parted --view g", "how the group fell apart and came together"),
        (f"plainchant explain {out}/timed --process valve", "what a member asked for in vain"),
        (f"plainchant trace {out}/shared --kind decide", "who decided on which message, when, and in which copy"),
        (f"plainchant trace {out}/nodes --kind elect", "which distributors a group over nodes had, and why"),
        (f"plainchant trace {out} --export chrome --out demo.json", "a picture, in ui.perfetto.dev"),
        ("plainchant chaos --minutes 1", "real processes in trouble, and what still holds"),
        ("plainchant run --list", "other scenarios to try, and `plainchant live` runs each with real processes"),
        ("plainchant protocols sequencer", "what it promises, and what can be set; there are four other protocols"),
    ):
        console.print(f"  {command:<58} {why}", markup=False)
