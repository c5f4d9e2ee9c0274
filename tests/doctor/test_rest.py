"""Clocks and resources, the examination as a whole, and that a real machine can be asked everything."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plainchant.doctor import clocks, resources
from plainchant.doctor.examination import CHECKS, examine, is_ill
from plainchant.doctor.finding import Subject
from plainchant.doctor.machine import Lateness, Machine

from .pretend import amiss, look, pretend


def test_all_is_well() -> None:
    for check in (
        clocks.clocks,
        clocks.synchronisation,
        resources.shared_memory,
        resources.files,
        resources.disk,
        resources.processors,
    ):
        found = look(check, pretend())
        assert found
        assert {finding.level for finding in found} == {"ok"}


@pytest.mark.parametrize(
    ("machine", "text", "change"),
    [
        ({"resolution": 0.015}, "the monotonic clock shows steps of 15 ms", "choose another clock source"),
        ({"lateness": Lateness(0.0001, 0.001, 0.002, 1.5)}, "the time of day jumped by 1.5 s", "chrony: no makestep"),
        ({"lateness": Lateness(0.01, 0.3, 0.5, 0.0)}, "1 in 100 300 ms", "suspect_after"),
    ],
)
def test_clocks_that_are_coarse_jump_or_are_late(machine: dict[str, Any], text: str, change: str) -> None:
    found = amiss(clocks.clocks, pretend(**machine))
    assert found.level == "warning"
    assert text in found.text
    assert change in found.change


def test_a_clock_that_nobody_keeps() -> None:
    assert "timedatectl set-ntp true" in amiss(clocks.synchronisation, pretend(synchronised=False)).change
    (found,) = look(clocks.synchronisation, pretend(synchronised=None))
    assert found.level == "ok"


# --- resources --------------------------------------------------------------------------------------------------------------


def mailbox(name: str, stale: bool) -> SimpleNamespace:
    return SimpleNamespace(is_stale=stale, register=SimpleNamespace(mailbox=name))


@pytest.mark.parametrize(
    ("machine", "level", "text", "change"),
    [
        ({"space": (0, "Permission denied")}, "warning", "mailboxes are files: slower", "mount -t tmpfs"),
        ({"space": (1 << 20, "")}, "warning", "/dev/shm has 1 MiB left", "--shm-size=256m"),
        ({"platform": "darwin"}, "warning", "this system has none", "mount"),
        (
            {"mailboxes": [mailbox("old", True), mailbox("new", False)]},
            "warning",
            "1 mailboxes (old)",
            "plainchant doctor --memory --clean --seconds 0",
        ),
        ({"mailboxes": "it belongs to somebody else"}, "problem", "it belongs to somebody else", "make it yours"),
    ],
)
def test_shared_memory_that_is_not_there_small_or_full_of_the_dead(
    machine: dict[str, Any], level: str, text: str, change: str
) -> None:
    found = amiss(resources.shared_memory, pretend(**machine))
    assert found.level == level
    assert text in found.text
    assert change in found.change


def test_mailboxes_in_use_are_well() -> None:
    found = look(resources.shared_memory, pretend(mailboxes=[mailbox("new", False)]))
    assert [finding.level for finding in found] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("limits", "level"),
    [((100, 4096), "problem"), ((256, 4096), "warning"), ((1023, -1), "warning"), ((1024, 1024), "ok"), ((-1, -1), "ok")],
)
def test_few_open_files(limits: tuple[int, int], level: str) -> None:
    (found,) = look(resources.files, pretend(file_limits=limits))
    assert found.level == level
    assert ("ulimit -n" in found.change) == (level != "ok")


@pytest.mark.parametrize(
    ("space", "level"),
    [((0, "Read-only file system"), "problem"), ((1 << 20, ""), "problem"), ((100 << 20, ""), "warning"), ((2 << 30, ""), "ok")],
)
def test_a_disk_that_is_full_or_not_ours(space: tuple[int, str], level: str) -> None:
    (found,) = look(resources.disk, pretend(space=space), Subject(spool=Path("spools")))
    assert found.level == level
    assert "spools" in found.text
    assert bool(found.change) == (level != "ok")


@pytest.mark.parametrize(
    ("machine", "text"),
    [
        ({"processors": 1}, "1 processor: members"),
        ({"load": 9.0}, "9.0 processes want one"),
        ({"files": {"/proc/stat": "cpu 100 0 100 700 0 0 0 100 0 0\n"}}, "10% of the time since the start was taken"),
    ],
)
def test_processors_that_are_few_busy_or_shared(machine: dict[str, Any], text: str) -> None:
    found = amiss(resources.processors, pretend(**machine))
    assert found.level == "warning"
    assert text in found.text


def test_a_control_group_that_gives_less_is_told() -> None:
    (found,) = look(resources.processors, pretend(files={"/sys/fs/cgroup/cpu.max": "150000 100000\n"}))
    assert found.text.startswith("4 processors, of which a control group lets us use 1.5")


@pytest.mark.parametrize(
    ("rights", "level", "change"),
    [
        ((0o600, 1000), "ok", ""),
        ((0o400, 1000), "ok", ""),
        ((0o640, 1000), "problem", "chmod 600 group.key"),
        ((0o602, 1000), "problem", "chmod 600 group.key"),
        ((0o600, 0), "problem", "chown 1000 group.key"),
        ("No such file or directory", "problem", "name the file that has it, or make it yours"),
    ],
)
def test_a_file_that_is_its_owners_alone(rights: Any, level: str, change: str) -> None:
    (found,) = resources.private_file(pretend(rights=rights), "keys", Path("group.key"), "the group's key")
    assert (found.check, found.level, found.change) == ("keys", level, change)


# --- the whole ----------------------------------------------------------------------------------------------------------------


def test_an_examination_runs_every_check_in_order() -> None:
    began: list[str] = []
    findings = list(examine(pretend(), Subject(), began.append))
    assert began == list(CHECKS)
    assert not is_ill(findings)
    assert {finding.level for finding in findings} == {"ok"}


def test_the_page_has_every_check() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "doctor.md").read_text()
    rows = [line.split("|")[1] for line in page.partition("## What it looks at")[2].splitlines() if line.startswith("| ")]
    told = {name.strip() for row in rows for name in row.split(",")}
    assert told - {"check"} == set(CHECKS)


def test_a_check_that_breaks_is_a_problem_and_stops_no_other() -> None:
    findings = list(examine(pretend(granted=ZeroDivisionError("oops")), Subject()))
    (found,) = [finding for finding in findings if finding.level == "problem"]
    assert (found.check, found.text) == ("buffers", "this could not be looked at: ZeroDivisionError: oops")
    assert is_ill(findings)
    assert findings[-1].check == "processors"


def test_this_machine_answers(tmp_path: Path) -> None:
    machine = Machine()
    assert machine.bind(("127.0.0.1", 0), "udp") == machine.bind(("127.0.0.1", 0), "tcp") == ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there, socket.create_server(("127.0.0.1", 0)) as also:
        there.bind(("127.0.0.1", 0))
        assert "in use" in machine.bind(there.getsockname(), "udp")
        assert "in use" in machine.bind(also.getsockname(), "tcp")
    assert machine.resolve("127.0.0.1") == ("127.0.0.1", "")
    assert machine.resolve("no.such.host.invalid")[1]
    assert machine.echo(1400) == ""
    assert machine.multicast("192.0.2.77")  # nobody's interface
    assert {each.address for each in machine.interfaces() if each.loopback} <= {"127.0.0.1"}
    assert all(each > 0 for each in machine.granted(1 << 20))
    seen = machine.lateness(20)
    assert seen.median <= seen.most <= seen.longest
    assert 0 < machine.resolution() < 1
    assert machine.synchronised() in (True, False, None)
    assert "Selector" in machine.event_loop()
    free, why = machine.space(tmp_path / "not" / "there")
    assert free > 0
    assert not why
    (tmp_path / "file").write_text("x")
    assert "no directory" in machine.space(tmp_path / "file")[1]
    os.chmod(tmp_path / "file", 0o640)
    assert machine.rights(tmp_path / "file") == (0o640, os.getuid())
    assert machine.rights(tmp_path / "missing") == "No such file or directory"
    assert machine.version("msgspec")
    assert machine.version("no-such-package") is None
    assert machine.read(tmp_path / "file") == "x"
    assert machine.read(tmp_path / "missing") is None
    ticks = machine.ticks()
    assert ticks is None or ticks["total"] > ticks["steal"] >= 0
    assert machine.processors() >= 1
    assert machine.load() >= 0
    assert len(machine.file_limits()) == 2
    assert not isinstance(machine.mailboxes(), str)
