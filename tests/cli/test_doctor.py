"""``plainchant doctor``: what it says of a machine; what ``--memory`` measures and proposes; how it looks after mailboxes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from plainchant.cli import main
from plainchant.core.memory import Layout
from plainchant.core.model import US
from plainchant.doctor import memory as measure
from plainchant.doctor.memory import OPERATIONS, Measurement, Reading
from plainchant.live.memory import server
from plainchant.live.memory.server import MailboxServer, mailboxes, namespace_of
from plainchant.protocols.mailbox.parameters import Parameters

from ..doctor.pretend import pretend

LAYOUT = Layout(copies=2, places=3, slots=2, room=64)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Mailboxes of a test's own."""
    monkeypatch.setenv("COLUMNS", "200")
    directory = tmp_path / "shared"
    directory.mkdir()
    monkeypatch.setattr(server, "SHARED", directory)
    return directory


def make_stale(name: str) -> None:
    """A mailbox whose processes have died: the second without looking whether it is the last."""
    first = MailboxServer("n").connect(name, LAYOUT, "first", 1)
    second = MailboxServer("n").connect(name, LAYOUT, "second", 1)
    first.abandon()
    second._close()


def test_what_is_measured_is_proposed_as_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--memory", "--seconds", "0.3", "--size", "100", "--copies", "3", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["measurement"]
    assert (result["processes"], result["copies"], result["size"]) == (3, 3, 100)
    for name in (*OPERATIONS, "wake", "bell"):
        reading = result["readings"][name]
        assert reading["count"] > 0
        assert reading["median"] <= reading["most"] <= reading["nearly_all"] <= reading["longest"]
    proposal = result["proposal_ns"]
    assert set(proposal) == {*OPERATIONS, "skew", "poll"}
    for name in OPERATIONS:
        assert proposal[name] >= result["readings"][name]["nearly_all"]
    Parameters(copies=3, **proposal)
    assert [found for found in mailboxes() if found.register.namespace.startswith("doctor ")] == []


def test_bounds_are_rounded_up_and_shown_ready_to_use(
    shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading = Reading(1000, 5_000, 30_000, 41_001, 90_000)
    known = {**dict.fromkeys((*OPERATIONS, "wake"), reading), "flag": Reading(1000, 1, 2, 3, 4)}
    monkeypatch.setattr(measure, "measure", lambda **options: Measurement(3, options["copies"], options["size"], known))
    assert main(["doctor", "--memory"]) == 0
    out = capsys.readouterr().out
    assert '\nparameters = {"write": "50us", "flag": "20us", "decide": "50us"' in out
    assert '"skew": "10us", "poll": "100us"}' in out
    assert "3 processes, 2 copies, messages of 32 bytes" in out
    (row,) = [line.split() for line in out.splitlines() if line.startswith("read a message")]
    assert row[4:] == ["5.0", "30.0", "41.0", "90.0", "1,000", "50us"]
    assert Measurement(3, 2, 32, known).proposal["write"] == 50 * US


def test_mailboxes_are_listed_and_stale_ones_removed(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--memory", "--seconds", "0"]) == 0
    assert "There are no mailboxes now." in capsys.readouterr().out
    make_stale("old")
    alive = MailboxServer("n").connect("new", LAYOUT, "p1", 1)
    MailboxServer("n").crash_module(2)
    assert main(["doctor", "--memory", "--seconds", "0", "--json"]) == 0
    there = {found["mailbox"]: found for found in json.loads(capsys.readouterr().out)["mailboxes"]}
    assert there["old"]["stale"] is True
    assert there["old"]["alive"] == []
    assert there["new"]["stale"] is False
    assert [each["process"] for each in there["new"]["connected"]] == there["new"]["alive"] == ["p1"]
    assert there["new"]["crashed_modules"] == [2]
    assert main(["doctor", "--memory", "--seconds", "0"]) == 0
    out = capsys.readouterr().out
    assert "stale: --clean removes it" in out
    assert "first (dead), second (dead)" in out
    assert main(["doctor", "--memory", "--seconds", "0", "--clean"]) == 0
    out = capsys.readouterr().out
    assert "Removed old, whose processes had all died." in out
    assert "stale" not in out
    assert [found.register.mailbox for found in mailboxes()] == ["new"]
    alive.disconnect()
    assert list(shared.iterdir()) == []


def test_where_files_are_no_memory_it_says_so(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "SHARED", tmp_path / "missing")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["doctor", "--memory", "--seconds", "0"]) == 0
    assert "which is no memory but files: slower." in capsys.readouterr().out


def on(monkeypatch: pytest.MonkeyPatch, **amiss: Any) -> None:
    """The doctor looks at a machine on which all is well but this."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("plainchant.doctor.machine.Machine", lambda: pretend(**amiss))


def test_a_machine_on_which_all_is_well(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    on(monkeypatch)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert re.search("(?m)^ok +java +Java 21", out)
    assert out.endswith("\nno problem, no warning\n")
    assert "->" not in out
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["problems"], told["warnings"]) == (0, 0)
    assert {finding["level"] for finding in told["findings"]} == {"ok"}


def test_problems_and_warnings_are_told_with_what_to_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on(monkeypatch, synchronised=False, space=(0, "Read-only file system"))
    assert main(["doctor", "--spool", "spools"]) == 1
    out = capsys.readouterr().out
    lines = [line.rstrip() for line in out.splitlines()]
    at = next(number for number, line in enumerate(lines) if line.startswith("problem  disk"))
    assert lines[at].endswith("nothing can be written to spools: Read-only file system")
    assert lines[at + 1].strip() == "-> choose another directory (trace, --trace), or make it yours"
    assert out.endswith("\n1 problem, 2 warnings\n")
    on(monkeypatch, synchronised=False)
    assert main(["doctor"]) == 0  # a warning is none
    assert "no problem, 1 warning\n" in capsys.readouterr().out
    on(monkeypatch, space=(0, "Read-only file system"))
    assert main(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (found,) = [finding for finding in told["findings"] if finding["level"] == "problem"]
    assert (found["check"], bool(found["change"])) == ("disk", True)


def test_a_configuration_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bank.toml"
    file.write_text('[peers]\na = "127.0.0.1:7001"\nb = "127.0.0.1:7002"\n')
    on(monkeypatch, bind=lambda address, kind: "Address already in use" if address[1] == 7002 else "")
    assert main(["doctor", "--config", str(file)]) == 0  # nobody has said who is to run here
    assert "b at 127.0.0.1:7002 is here and cannot be bound now" in capsys.readouterr().out
    assert main(["doctor", "--config", str(file), "--me", "a"]) == 0
    assert main(["doctor", "--config", str(file), "--me", "b"]) == 1
    assert "b at 127.0.0.1:7002 cannot be bound" in capsys.readouterr().out
    file.write_text('me = "b"\ntrace = "logs"\n' + file.read_text())
    assert main(["doctor", "--config", str(file)]) == 1
    assert "are left at logs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--me", "a"], "name it with --config"),
        (["--clean"], "plainchant doctor --memory --clean"),
        (["--memory", "--spark"], "--memory measures memory and nothing else"),
        (["--config", "missing.toml"], "no configuration file"),
        (["--config", "wrong.toml"], "wrong.toml:1: this is not TOML"),
        (["--config", "empty.toml"], "peers are missing"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.toml").write_text("me = ")
    Path("empty.toml").write_text("")
    assert main(["doctor", *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_this_machine_is_looked_at_without_a_check_that_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) in (0, 1)  # whatever it has
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [finding for finding in findings if "could not be looked at" in finding["text"]] == []
    assert {finding["check"] for finding in findings} >= {"python", "java", "multicast", "buffers", "clocks", "shared memory"}


def test_mailboxes_on_nodes_say_on_which(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attached = [MailboxServer(namespace_of("n", node)).connect("g", LAYOUT, f"{node}.a", 1) for node in ("n1", "n2")]
    try:
        assert main(["doctor", "--memory", "--seconds", "0"]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert sorted(line[:2] for line in lines if "pid" in " ".join(line)) == [["n1", "g"], ["n2", "g"]]
        assert ["node", "mailbox"] in [line[:2] for line in lines]
        assert main(["doctor", "--memory", "--seconds", "0", "--json"]) == 0
        assert sorted(found["node"] for found in json.loads(capsys.readouterr().out)["mailboxes"]) == ["n1", "n2"]
    finally:
        for each in attached:
            each.disconnect()
