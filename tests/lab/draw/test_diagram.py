"""Space-time diagrams: what is drawn, where it stands, what is left out and said to be."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.cli import main
from plainchant.core.model import MS, UsageError
from plainchant.lab.draw.diagram import diagram
from plainchant.lab.draw.layout import Layout
from plainchant.lab.draw.marks import SHEET, SIGNS
from plainchant.lab.draw.rows import scene
from plainchant.scenario import find, load
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer
from tests.trace.build import trace

from ..explain.rings import crashed, omission, ring, turn, voted
from ..explain.script import Script, partition, silence
from ..explain.test_views import merged, refuted

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def texts(picture: ElementTree.Element, style: str) -> list[str]:
    """The texts of a class, in the order in which they are drawn."""
    found = [element for element in picture.iter(f"{SVG}text") if style in element.get("class", "").split()]
    return [(element.text or "") + "".join(title.tail or "" for title in element) for element in found]


def titles_of(element: ElementTree.Element) -> list[str]:
    return [title.text or "" for title in element.findall(f"{SVG}title")]


def titles(picture: ElementTree.Element) -> list[str]:
    return [title.text or "" for title in picture.iter(f"{SVG}title")]


def legend(picture: ElementTree.Element) -> list[str]:
    meanings = {meaning: name for name, (_, meaning) in SIGNS.items()}
    return [meanings[text] for text in texts(picture, "soft") if text in meanings]


# --- what is drawn ----------------------------------------------------------------------------------------------------


def test_a_partition_is_drawn_with_its_evidence() -> None:
    picture = parsed(diagram(partition().table()))
    assert texts(picture, "lane") == ["i", "j", "k", "l", "m"]
    assert texts(picture, "title") == ["Run r0, group g, 0.000 ms to 600.000 ms"]
    assert texts(picture, "faulttext") == ["fault: partition, i j | k l m"]
    labels = Counter(texts(picture, "bad"))
    assert labels["m?"] == 4
    assert labels["k l?"] == 2, "what one process says at one instant is one mark"
    assert labels["i j?"] == 2
    assert labels["k l m failed"] == 2
    assert labels["crashes"] == 1
    assert set(texts(picture, "viewtext")) >= {"view 1 {i, j, k, l, m}", "view 2 {i, j, k, l}", "view 2 {i, j}", "view 3 {k, l}"}
    assert legend(picture) == ["send", "deliver", "message", "view", "install", "crash", "suspect", "confirm", "remove"]
    evidence = "block 10 lacked it for 251.0 ms, and i's patience is 250.0 ms; its last here is block 8"
    assert f"261.000 ms: i suspects m ({evidence})" in titles(picture)


def test_the_same_view_has_the_same_colour_and_concurrent_ones_have_not() -> None:
    picture = parsed(diagram(partition().table()))
    bars: dict[str, set[str]] = {}
    for box in picture.iter(f"{SVG}rect"):
        for title in titles_of(box):
            if " installs " in title:
                bars.setdefault(title.partition(" installs ")[2], set()).add(box.get("class", ""))
    assert sorted(bars) == ["view 1 {i, j, k, l, m}", "view 2 {i, j, k, l}", "view 2 {i, j}", "view 3 {k, l}"]
    assert all(len(colours) == 1 for colours in bars.values())
    assert len({colour for colours in bars.values() for colour in colours}) == 4


def test_arrows_lead_from_the_send_to_every_delivery_elsewhere() -> None:
    script = Script()
    script.view(0, "p q r", 1, "p q r")
    script.deliver(2, "p q r", "p", script.send(1, "p"))
    picture = parsed(diagram(script.table()))
    arrows = [title for title in titles(picture) if title.startswith("g/p/1: sent")]
    assert arrows == [
        "g/p/1: sent at 1.000 ms, delivered by q at 2.000 ms",
        "g/p/1: sent at 1.000 ms, delivered by r at 2.000 ms",
    ]
    sends = [one for one in picture.iter(f"{SVG}circle") if titles_of(one) == ["1.000 ms: p sends g/p/1"]]
    deliveries = [one for one in picture.iter(f"{SVG}polygon") if titles_of(one) == ["2.000 ms: q delivers g/p/1"]]
    assert float(sends[0].get("cx", "0")) < min(float(x) for x in re.findall(r"([\d.]+),", deliveries[0].get("points", "")))


def test_refutations_are_told_apart() -> None:
    picture = parsed(diagram(refuted().table()))
    assert {"refute", "heard", "late"} <= set(legend(picture))
    assert "r!" in texts(picture, "good")
    assert "too late" in texts(picture, "bad")


def test_a_merge_shows_steps_parts_and_who_may_not_send() -> None:
    picture = parsed(diagram(merged().table()))
    steps = Counter(texts(picture, "formtext"))
    assert steps["move"] == 3
    assert steps["3 parts"] == 4
    assert "enter" not in steps
    blocked = [title for title in titles(picture) if "may not send for" in title]
    assert "104.000 ms: p may not send for 8.0 ms: p may not send in g: the group moves to another formation" in blocked
    assert len(blocked) == 3


def test_null_messages_are_drawn_if_wanted() -> None:
    script = Script()
    script.view(0, "p q", 1, "p q")
    script.add(5, "p", "null", block=3, why="alive")
    assert "null" not in legend(parsed(diagram(script.table())))
    assert "null" in legend(parsed(diagram(script.table(), nulls=True)))


def test_two_groups_have_a_bar_each_and_one_can_be_chosen() -> None:
    script = Script()
    script.view(0, "p q", 1, "p q")
    script.view(1, "q r", 4, "q r", group="h")
    script.deliver(3, "q r", "q", script.send(2, "q", group="h"), group="h")
    both = parsed(diagram(script.table()))
    assert set(texts(both, "viewtext")) == {"g view 1 {p, q}", "h view 4 {q, r}"}
    assert texts(both, "title") == ["Run r0, groups g and h, 0.000 ms to 3.000 ms"]
    one = parsed(diagram(script.table(), group="h"))
    assert texts(one, "lane") == ["q", "r"]
    assert texts(one, "viewtext") == ["view 4 {q, r}"] * 2


def test_a_stretch_begins_with_the_views_and_faults_that_were_in_force() -> None:
    picture = parsed(diagram(partition().table(), first=250 * MS, last=300 * MS))
    assert texts(picture, "lane") == ["i", "j", "k", "l"], "m had crashed"
    assert texts(picture, "viewtext").count("view 1 {i, j, k, l, m}") == 4
    assert texts(picture, "faulttext") == ["fault: partition, i j | k l m"]
    assert "k l?" not in texts(picture, "bad")
    assert not [title for title in titles(picture) if title.startswith("530")]


def test_hostile_names_are_escaped() -> None:
    table = trace({"<b>&": "view 1 <b>&,q | send | deliver <b>& 1", "q": "view 1 <b>&,q | deliver <b>& 1"})
    picture = parsed(diagram(table))
    assert texts(picture, "lane") == ["<b>&", "q"]


def test_traces_without_a_global_clock_and_with_times_of_day() -> None:
    script = Script(is_global=False)
    noon = 1.8e12
    script.view(noon, "p q", 1, "p q")
    script.deliver(noon + 2, "p q", "p", script.send(noon + 1, "p"))
    picture = parsed(diagram(script.table(), last=10 * MS))
    assert texts(picture, "title") == ["Run r0, group g, 0.000 ms to 10.000 ms"]
    assert texts(picture, "tick") == ["0.000 ms", "1.000 ms", "2.000 ms"]


# --- how it is drawn --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [partition(), refuted(), merged()], ids=["partition", "refuted", "merged"])
def test_everything_is_inside_the_picture_and_every_class_has_a_style(script: Script) -> None:
    picture = parsed(diagram(script.table(), nulls=True))
    width, height = float(picture.get("width", "0")), float(picture.get("height", "0"))
    for element in picture.iter():
        for name in ("x", "cx", "x1", "x2", "y", "cy", "y1", "y2"):
            most = width if "x" in name else height
            assert 0 <= float(element.get(name, "0")) <= most, ElementTree.tostring(element)
        for style in element.get("class", "").split():
            assert f".{style}" in SHEET or style == "fill", style


def test_labels_of_a_lane_do_not_overlap() -> None:
    script = Script()
    script.view(0, "p q r", 1, "p q r")
    for number in range(30):
        script.add(100 + number / 1000, "p", "suspect", **silence("q", last=number))
    picture = parsed(diagram(script.table()))
    placed: dict[str, list[float]] = {}
    for element in picture.iter(f"{SVG}text"):
        if "label" in element.get("class", "").split():
            placed.setdefault(element.get("y", ""), []).append(float(element.get("x", "0")))
    assert placed
    for xs in placed.values():
        assert all(after - before >= 18 for before, after in pairwise(xs))


def test_a_processs_own_events_never_overlap_and_longer_waits_are_longer() -> None:
    shown = scene(partition().table(), group=None, first=None, last=None)
    layout = Layout(shown.drawn, left=80, wide=1_000)
    for lane in shown.lanes:
        xs = [layout.x(row) for row in shown.drawn if row["process"] == lane]
        assert all(after - before >= 13 for before, after in pairwise(xs))
    x = layout.x_of
    assert x(10 * MS) < x(100 * MS) < x(210 * MS) < x(260 * MS) < x(500 * MS)


def test_the_same_trace_gives_the_same_bytes() -> None:
    table = partition().table()
    backwards = table.take(pa.array(list(range(table.num_rows - 1, -1, -1))))
    assert diagram(table) == diagram(table) == diagram(backwards)


# --- limits -----------------------------------------------------------------------------------------------------------


def test_messages_are_thinned_and_the_odd_ones_kept() -> None:
    script = Script()
    script.view(0, "p q", 1, "p q")
    for number in range(100):
        seq = script.send(number, "p")
        script.deliver(number + 0.5, "p" if number == 57 else "p q", "p", seq)
    picture = parsed(diagram(script.table(), messages=10, last=99 * MS))
    assert "10 of 100 messages are drawn" in texts(picture, "soft")
    numbers = [int(text) for text in texts(picture, "label")]
    assert len(numbers) == 10
    assert 58 in numbers, "not delivered by everybody"
    assert 100 not in numbers, "delivered later, which is nothing odd"
    assert min(numbers) < 20
    assert max(numbers) > 80
    assert not texts(parsed(diagram(script.table(), messages=0)), "label")


def test_what_nobody_could_read_is_refused() -> None:
    script = Script()
    script.view(0, "p q", 1, "p q")
    for number in range(700):
        script.add(1 + number, "p", "suspect", **silence("q", last=number))
    with pytest.raises(UsageError, match="there are 702 marks to draw, of which at most 600 can be read; choose a shorter"):
        diagram(script.table())
    assert diagram(script.table(), last=100 * MS)
    crowd = " ".join(f"p{number}" for number in range(50))
    script = Script()
    script.view(0, crowd, 1, crowd)
    with pytest.raises(UsageError, match="there are 50 processes to draw, of which at most 40"):
        diagram(script.table())


def test_other_slips() -> None:
    table = partition().table()
    with pytest.raises(UsageError, match="nothing to draw in this stretch"):
        diagram(table, first=20 * MS, last=30 * MS)
    two = pa.concat_tables([trace({"p": "send"}, run=run) for run in ("r1", "r2")])
    with pytest.raises(UsageError, match="a diagram shows one run, and there are 2 in this trace"):
        diagram(two)
    with pytest.raises(UsageError, match="there are no rows"):
        diagram(table.slice(0, 0))


def test_many_faults_are_cut_and_counted() -> None:
    script = Script()
    script.view(0, "p q", 1, "p q")
    for number in range(12):
        script.add(1 + number, "p", "fault", group=None, fault="cut", source="p", target="q", length=MS)
    picture = parsed(diagram(script.table()))
    assert len(texts(picture, "faulttext")) == 8
    assert "8 of 12 faults are drawn" in texts(picture, "soft")


# --- real runs and the command ----------------------------------------------------------------------------------------


def test_a_shipped_scenario_is_drawn() -> None:
    buffer = TraceBuffer()
    Simulation(load(find("partition"), ["duration=1s", "drain=0"]), trace=buffer).run()
    picture = parsed(diagram(buffer.table(), first=480 * MS, last=900 * MS))
    assert {"p1?", "p3 p5?"} <= set(texts(picture, "bad"))
    assert {"vote", "elected", "proposes"} <= set(texts(picture, "formtext"))
    assert "view 2 {p3, p4, p5}" in texts(picture, "viewtext")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of a scripted trace."""
    pq.write_table(partition().table(), tmp_path / "t.parquet")
    return tmp_path


def test_the_command_draws(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = directory / "run.svg"
    assert main(["trace", str(directory), "--diagram", str(file), "--from", "240ms", "--to", "300ms", "--messages", "3"]) == 0
    assert f"drawn in {file}" in capsys.readouterr().out
    assert texts(parsed(file.read_text(encoding="utf-8")), "title") == ["Run r0, group g, 240.000 ms to 300.000 ms"]
    assert main(["trace", str(directory), "--diagram", str(file)]) == 2
    assert "exists; name another file with --diagram" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--diagram", "x.svg", "--kind", "view"], "--diagram goes with --run, --group, --from, --to, --messages and --nulls"),
        (["--nulls"], "go with --diagram"),
        (["--messages", "3"], "go with --diagram"),
        (["--from", "soon"], "is not a duration"),
        (["--diagram", "x.svg", "--group", "h"], 'there is no group "h"'),
    ],
)
def test_a_slip_is_one_sentence(directory: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(directory), *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_a_stretch_of_the_listing(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(directory), "--kind", "view", "--from", "265ms", "--to", "504ms"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == ["265.000", "266.000", "504.000", "504.000"]


# --- a token ring -----------------------------------------------------------------------------------------------------


def test_turns_are_boxes_and_the_token_passes_between_them() -> None:
    picture = parsed(diagram(crashed().table(), first=9 * MS))
    assert {"turn", "overdue", "beat", "token"} <= set(legend(picture))
    boxes = [box for box in picture.iter(f"{SVG}rect") if "turn" in box.get("class", "").split() and titles_of(box)]
    assert len(boxes) == 7
    overdue = [box for box in boxes if "overdue" in box.get("class", "")]
    assert [titles_of(box)[0].partition(",")[0] for box in overdue] == ["40.000 ms: c has turn 12"]
    passes = [title for title in titles(picture) if title.startswith("the token passes")]
    assert passes == [
        "the token passes from a to b",
        "the token passes from b to c",
        "the token passes from c to a",
        "the token passes from c to a",
        "the token passes from a to c",
    ], "not to the turn that came by a timeout, nor from it to the one that did not follow"
    assert "12" in texts(picture, "bad")
    assert "b?" in texts(picture, "bad")


def test_no_token_passes_to_a_turn_that_came_by_a_timeout() -> None:
    script = ring()
    turn(script, 10, "a", 4)
    turn(script, 11, "b", 5)
    turn(script, 30, "c", 6, by="timeout")
    script.end(40, "a b c")
    passes = [title for title in titles(parsed(diagram(script.table()))) if title.startswith("the token passes")]
    assert passes == ["the token passes from a to b"]


def test_a_box_has_in_it_what_is_sent_in_the_turn() -> None:
    picture = parsed(diagram(crashed().table(), first=9 * MS))
    (send,) = [one for one in picture.iter(f"{SVG}circle") if titles_of(one) == ["12.000 ms: c sends g/c/1"]]
    box = next(
        box
        for box in picture.iter(f"{SVG}rect")
        if box.get("class") == "turn" and any("c has turn 9" in title for title in titles_of(box))
    )
    left, wide = float(box.get("x", "0")), float(box.get("width", "0"))
    assert left < float(send.get("cx", "0")) < left + wide


def test_what_is_missing_asked_for_and_sent_again_is_drawn() -> None:
    picture = parsed(diagram(omission().table()))
    assert {"ask", "again", "omission", "crash"} <= set(legend(picture))
    assert texts(picture, "asktext") == ["a:7", "a:7"]
    assert "omission" in texts(picture, "bad")
    assert any("12.000 ms: c asks for packet 7 of a (it has not come" in title for title in titles(picture))


def test_a_vote_is_drawn_and_what_a_view_shows_is_not() -> None:
    picture = parsed(diagram(voted().table()))
    assert texts(picture, "formtext") == ["P smaller", "asks in", "query", "yes", "yes", "yes"]


def test_too_many_turns_are_left_out_and_said_to_be() -> None:
    script = ring()
    for number in range(61):
        turn(script, 10 + number, "abc"[number % 3], number)
    script.end(80, "a b c")
    picture = parsed(diagram(script.table()))
    assert "turn" not in legend(picture)
    assert "61 turns are not drawn: choose a stretch with at most 60" in texts(picture, "soft")
    assert "turn" in legend(parsed(diagram(script.table(), first=11 * MS)))


def test_pictures_of_other_protocols_know_nothing_of_rings() -> None:
    assert ".turn" not in diagram(partition().table())
    assert ".turn" in diagram(crashed().table())
