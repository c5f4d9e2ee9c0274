"""``plainchant schedule``: what it says, writes and draws, and how mistakes in a message set are explained."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from plainchant.cli import main

ROOT = Path(__file__).resolve().parents[2]
GOOD = """\
[ring]
members = ["a", "b"]
retransmissions = 0
holds = { b = "6ms" }

[[message]]
name = "temperature"
node = "a"
size = 64
period = "200ms"
deadline = "150ms"

[[message]]
name = "alarm"
node = "b"
cost = "150us"
deadline = "90ms"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("set.toml").write_text(GOOD)
    return tmp_path


def test_a_set_that_fits_is_told_node_by_node(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "set.toml"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("P = ")
    assert "(equation 4.2: " in told
    assert "with 0 retransmissions" in told
    assert "a: schedulable; " in told
    assert "of T = 6 ms used" in told
    assert told.endswith("schedulable: all 2 messages meet their deadlines\n")


def test_what_does_not_fit_ends_with_1_and_the_deadline_that_would_do_is_accepted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["schedule", "set.toml", "--set", "message.1.deadline=20ms"]
    assert main(short) == 1
    told = capsys.readouterr().out
    assert "n < 1: the deadline of alarm (20ms) is shorter than Delta + P" in told
    nearest = told.split("the nearest deadline that can be promised is ")[1].split("\n")[0]
    assert told.endswith("not schedulable: 1 of 2 messages cannot be promised\n")
    assert main(["schedule", "set.toml", "--set", f"message.1.deadline={nearest}"]) == 0


def test_json_has_every_number(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "set.toml", "--json", "-", "--set", "message.0.size=30000"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schedulable"] is False
    assert found["delay_ns"] == found["rotation_ns"]
    assert found["rotation_ns"] > found["rotation_printed_ns"]
    first, second = found["nodes"]
    assert (first["node"], first["schedulable"], second["schedulable"]) == ("a", False, True)
    assert first["used_ns"] + first["slack_ns"] == first["hold_ns"] == 4_000_000
    assert first["demanded_ns"] > first["hold_ns"]
    (message,) = first["messages"]
    assert (message["admitted"], message["term"], message["nearest_deadline_ns"]) == (False, "load", None)
    assert "a deadline must not be longer than the period, 200ms" in message["hopeless"]
    (alarm,) = second["messages"]
    assert (alarm["size"], alarm["cost_ns"], alarm["period_ns"], alarm["admitted"]) == (None, 150_000, None, True)
    assert sum(item["cost_ns"] for item in second["overhead"]) + alarm["share_ns"] == second["used_ns"]


def test_json_goes_into_a_file_beside_what_people_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "set.toml", "--json", "found.json"]) == 0
    assert "schedulable: all 2" in capsys.readouterr().out
    assert json.loads(Path("found.json").read_text())["schedulable"] is True


def test_a_given_rotation_is_taken(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "set.toml", "--set", "ring.token=12ms"]) == 0
    assert capsys.readouterr().out.startswith("P = 12 ms, Delta = 12 ms")


def test_a_turn_too_short_for_the_ring_itself_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "set.toml", "--set", "ring.hold=300us"]) == 1
    assert "of T = 300 us; make T longer" in capsys.readouterr().out


def test_the_picture_shows_every_node_and_every_part_of_the_rotation(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["schedule", "set.toml", "--draw", "turns.svg", "--set", "message.0.size=30000"]
    assert main(arguments) == 1
    text = Path("turns.svg").read_text()
    picture = ElementTree.fromstring(text)
    titles = [element.text or "" for element in picture.iter("{http://www.w3.org/2000/svg}title")]
    turns = ("T of a: 4 ms", "T of b: 6 ms", "alarm: 150 us of each turn")
    for part in (*turns, "turn of b: T = 6 ms", "the token's way to a", "time to ask"):
        assert any(title.startswith(part) for title in titles), part
    assert any(title.startswith("temperature would take") and title.endswith("rejected") for title in titles)
    assert picture.attrib["aria-label"].startswith("not schedulable: 2 nodes")
    assert "prefers-color-scheme:dark" in text
    wide = float(picture.attrib["width"])
    for box in picture.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(box.attrib["x"]) + float(box.attrib["width"]) <= wide
        assert float(box.attrib["y"]) + float(box.attrib["height"]) <= float(picture.attrib["height"])
    capsys.readouterr()
    assert main(arguments) == 2
    assert "turns.svg exists; name another file with --draw" in capsys.readouterr().err


def test_csv_is_read_by_its_columns(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("set.csv").write_text("name,node,size,cost,period,deadline\ntemperature,a,64,,200ms,150ms\n\nalarm,b,,150us,,90ms\n")
    settings = ["--set", "ring.retransmissions=0", "--set", 'ring.holds={ b = "6ms" }', "--json", "-"]
    assert main(["schedule", "set.csv", *settings]) == 0
    from_table = json.loads(capsys.readouterr().out)
    assert main(["schedule", "set.toml", "--json", "-"]) == 0
    assert from_table == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name,nod\na,b\n", 'set.csv:1: unknown column "nod"; did you mean "node"?'),
        ("name,name\n", 'set.csv:1: there are two columns "name"'),
        ("name,node,size,deadline\na,b,1,20ms\nc,b,1,20ms,9\n", "set.csv:3: 5 cells, and there are 4 columns"),
        ("name,node,size,deadline\na,b,many,20ms\n", "set.csv:2: message.0.size must be a whole number"),
        ("name,node,size,deadline\na,b,1,20ms\nc,b,1,20\n", "set.csv:3: message.1.deadline: '20' is not a duration"),
        ("name,node,size,deadline\n", "set.csv: there are no messages"),
    ],
)
def test_mistakes_in_a_table_are_found_with_their_line(
    here: Path, text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("set.csv").write_text(text)
    assert main(["schedule", "set.csv"]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"150ms"', '"300ms"', 'set.toml:11: message "temperature" has a deadline (300ms) longer than its period (200ms)'),
        ('"200ms"', '"0s"', 'set.toml:10: message.0.period must be above 0, not "0s"'),
        ('"200ms"', '"-5ms"', 'set.toml:10: message.0.period must be above 0, not "-5ms"'),
        ('"200ms"', "200", "set.toml:10: message.0.period must be a duration with its unit"),
        ('"150ms"', '"150"', "set.toml:11: message.0.deadline: '150' is not a duration: write a number and a unit"),
        ('node = "b"', 'node = "c"', 'set.toml:15: there is no node "c" in ring.members; there are: a, b'),
        ('name = "alarm"\nnode = "b"', 'name = "temperature"\nnode = "a"', 'set.toml:14: node a has two messages "temperature"'),
        ("size = 64", "syze = 64", 'set.toml:9: unknown key "syze" in [[message]]; did you mean "size"?'),
        ("size = 64", "size = -1", "set.toml:9: message.0.size must be a whole number from 0"),
        ("size = 64\n", "", 'set.toml:6: message "temperature" has neither size nor cost'),
        ("size = 64", 'size = 64\ncost = "1us"', 'set.toml:6: message "temperature" has both size and cost'),
        ('deadline = "90ms"\n', "", 'set.toml:13: message "alarm" has no deadline'),
        ('name = "alarm"\n', "", "set.toml:13: a message has no name"),
        ("retransmissions = 0", "retransmisions = 0", 'set.toml:3: unknown key "retransmisions" in [ring]; did you mean'),
        ('["a", "b"]', '["a", "b", "a"]', 'set.toml:2: ring.members has "a" twice'),
        ("holds = { b", "holds = { z", 'set.toml:4: there is no node "z" on the ring; there are: a, b'),
        ("retransmissions = 0", 'idle_hold = "9ms"', "set.toml:3: idle_hold is 9ms, longer than a token hold time"),
        ("[ring]", "[rign]", 'set.toml:1: unknown key "rign" in a message set; did you mean "ring"?'),
        ("[ring]", "[ring", "set.toml:1: this is not TOML"),
        ("[[message]]", "[[messages]]", 'set.toml:6: unknown key "messages"'),
    ],
)
def test_mistakes_are_explained_with_their_line(
    here: Path, old: str, new: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in GOOD
    Path("set.toml").write_text(GOOD.replace(old, new))
    assert main(["schedule", "set.toml"]) == 2
    assert told in capsys.readouterr().err


def test_a_file_that_is_not_there(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "nowhere.toml"]) == 2
    assert "there is no message set file nowhere.toml" in capsys.readouterr().err


def test_the_example_is_schedulable_and_the_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", str(ROOT / "examples" / "process-control.toml")]) == 0
    assert "calibration" in capsys.readouterr().out
    assert main(["schedule", "--help"]) == 0
    told = capsys.readouterr().out
    for word in ("[[message]]", "deadline", "Delta = (r + 1) P", "--draw", "CSV"):
        assert word in told
