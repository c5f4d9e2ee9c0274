"""``plainchant key``: the commands of a rotation, as somebody would type them."""

from __future__ import annotations

from pathlib import Path

import pytest

from plainchant.cli import main
from plainchant.live.keys import Keyring


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_rotation_is_three_commands_each_of_which_says_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "new", "bank.key"]) == 0
    old = str(Keyring.read("bank.key").sealing)
    assert f"bank.key has the new key {old} (aes-256-gcm); copy it to all members" in capsys.readouterr().out
    assert main(["key", "add", "bank.key"]) == 0
    new = str(Keyring.read("bank.key").keys[1])
    said = capsys.readouterr().out
    assert f"when all members have it: plainchant key use bank.key {new}" in said
    assert main(said.rpartition(": plainchant ")[2].split()) == 0
    said = capsys.readouterr().out
    assert f"{new} seals now; when all members use it: plainchant key drop bank.key {old}" in said
    assert main(said.rpartition(": plainchant ")[2].split()) == 0
    assert f"bank.key has {old} no more; {new} is left" in capsys.readouterr().out
    assert [str(key) for key in Keyring.read("bank.key").keys] == [new]


def test_the_keys_of_another_file_are_added_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "new", "bank.key"]) == 0
    assert main(["key", "new", "next.key", "--cipher", "chacha20-poly1305"]) == 0
    assert main(["key", "add", "bank.key", "--from", "next.key"]) == 0
    assert main(["key", "add", "bank.key", "--from", "next.key"]) == 0
    ring = Keyring.read("bank.key")
    assert [key.cipher for key in ring.keys] == ["aes-256-gcm", "chacha20-poly1305"]
    capsys.readouterr()
    assert main(["key", "show", "bank.key"]) == 0
    shown = capsys.readouterr().out
    assert [line.split() for line in shown.splitlines()[1:]] == [
        [str(ring.keys[0]), "aes-256-gcm", "seals", "and", "opens"],
        [str(ring.keys[1]), "chacha20-poly1305", "opens"],
    ]
    assert not any(key.text.partition(":")[2] in shown for key in ring.keys)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["new", "bank.key"], "bank.key exists"),
        (["new", "other.key", "--cipher", "rot13"], "there is no cipher 'rot13'"),
        (["show", "nowhere.key"], "the key file nowhere.key cannot be read"),
        (["use", "bank.key", "zz"], "no key begins with 'zz'"),
        (["drop", "bank.key", "THE-ONE"], "is the one that seals"),
    ],
)
def test_mistakes_are_one_sentence(arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "new", "bank.key"]) == 0
    one = str(Keyring.read("bank.key").sealing)
    capsys.readouterr()
    assert main(["key", *(one if argument == "THE-ONE" else argument for argument in arguments)]) == 2
    said = capsys.readouterr()
    assert problem in said.err
    assert said.err.count("\n") == 1
    assert [str(key) for key in Keyring.read("bank.key").keys] == [one]


def test_a_file_that_others_read_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "new", "bank.key"]) == 0
    (place / "bank.key").chmod(0o644)
    assert main(["key", "show", "bank.key"]) == 2
    assert "say `chmod 600 bank.key`" in capsys.readouterr().err
