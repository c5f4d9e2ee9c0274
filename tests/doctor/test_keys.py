"""The group's key: where it is needed, whole, and its owner's alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plainchant.doctor.finding import Subject
from plainchant.doctor.keys import keys
from plainchant.doctor.machine import Machine
from plainchant.live.config import parse_config
from plainchant.live.keys import Keyring

from .pretend import amiss, look, pretend

HERE = '[peers]\na = "127.0.0.1:7001"\nb = "127.0.0.1:7002"\n'
OUTSIDE = '[peers]\na = "10.0.0.1:7001"\nb = "10.0.0.2:7002"\n'


def subject(text: str, *options: str, me: str = "a") -> Subject:
    return Subject(parse_config('me = "a"\n' + text, overrides=options), me)


def levels(machine: Machine, about: Subject) -> list[str]:
    return [finding.level for finding in look(keys, machine, about)]


def test_all_is_well() -> None:
    assert look(keys, pretend()) == []
    assert levels(pretend(), subject(HERE)) == ["ok"]
    assert levels(pretend(), subject(OUTSIDE, "key=group.key")) == ["ok", "ok"]
    assert levels(pretend(environ={"PLAINCHANT_KEY_FILE": "group.key"}), subject(OUTSIDE)) == ["ok", "ok"]
    assert levels(pretend(environ={"PLAINCHANT_KEY": "x"}), subject(OUTSIDE)) == ["ok"]
    assert "2 keys; the first one seals" in look(keys, pretend(keyring=2), subject(HERE, "key=k"))[-1].text
    # Who is not to run here needs none here.
    elsewhere = pretend(is_here=lambda address: address[0] == "10.0.0.9")
    assert levels(elsewhere, subject(OUTSIDE, me="")) == ["ok"]


@pytest.mark.parametrize(
    ("machine", "about", "level", "text", "change"),
    [
        ({}, subject(OUTSIDE), "problem", "other machines reach a at 10.0.0.1:7001: a node does not start", "plainchant key new"),
        ({}, subject(OUTSIDE, "insecure=true"), "warning", "they can read, change and forge", "take insecure out"),
        ({"rights": (0o644, 1000)}, subject(HERE, "key=k"), "problem", "can be read or written by others", "chmod 600 k"),
        ({"rights": "No such file or directory"}, subject(HERE, "key=k"), "problem", "k cannot be read", "name the file"),
        ({"keyring": "k is no key file"}, subject(HERE, "key=k"), "problem", "k is no key file", "copy the file of another"),
        ({"environ": {"PLAINCHANT_KEY": "x", "PLAINCHANT_KEY_FILE": "k"}}, subject(HERE), "problem", "both", "unset"),
    ],
)
def test_what_is_amiss(machine: dict[str, Any], about: Subject, level: str, text: str, change: str) -> None:
    found = amiss(keys, pretend(**machine), about)
    assert (found.check, found.level) == ("keys", level)
    assert text in found.text
    assert change in found.change


def test_a_real_key_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "group.key"
    Keyring.new().write(path, replace=False)
    assert Machine().keyring(path) == 1
    path.write_text("nonsense")
    assert isinstance(Machine().keyring(path), str)
