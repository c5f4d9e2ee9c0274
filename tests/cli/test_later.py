"""Commands that are imported when they are called: the list of commands says what the commands say of themselves."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from plainchant.cli import BENCHMARKS, COMMANDS, KEYS, app, main
from plainchant.cli.later import Later

GROUPS = (("", COMMANDS), ("bench ", BENCHMARKS), ("key ", KEYS))
ALL = {f"{where}{command.name}": command for where, group in GROUPS for command in group}


@pytest.mark.parametrize("command", ALL.values(), ids=ALL.keys())
def test_a_command_in_the_list_is_the_command_itself(command: Later) -> None:
    real = command.load()
    assert real.name == command.name
    assert real.help.split("\n\n")[0].replace("\n", " ") == command.help
    assert command.get_short_help_str(60) == command.help
    assert real.hidden is command.hidden is False
    assert real.deprecated is command.deprecated is False


def test_all_commands_are_in_the_help_with_whole_summaries(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(app.commands) == [*(command.name for command in COMMANDS), "key", "bench"]
    for arguments, commands in (
        (["--help"], app.commands.values()),
        (["bench", "--help"], BENCHMARKS),
        (["key", "--help"], KEYS),
    ):
        assert main(arguments) == 0
        listed = " ".join(capsys.readouterr().out.partition("Commands:\n")[2].split())
        for command in commands:
            assert f"{command.name} {command.get_short_help_str(0)}" in listed
            assert not command.get_short_help_str(0).endswith("...")


@pytest.mark.parametrize("name", ALL)
def test_help_shows_no_python_types_and_cites_pages_that_exist(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*name.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert "list[" not in text
    for page in re.findall(r"\bdocs/[a-z-]+\.md\b", text):
        assert any(Path(line.strip()).exists() and line.endswith(page) for line in text.splitlines())


def test_a_file_in_the_help_is_printed_as_it_is_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["schedule", "--help"]) == 0
    text = capsys.readouterr().out
    shown = text.partition("A message set is a TOML file:\n")[2].partition("In a CSV file")[0]
    assert set(tomllib.loads(shown)) == {"ring", "message"}
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("arguments", [["node", "--help"], ["bench", "live", "--help"]])
def test_a_command_that_is_called_later_knows_where_it_stands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith(f"Usage: plainchant {' '.join(arguments[:-1])} [OPTIONS]")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rnu"], "No such command 'rnu'. Did you mean 'run'?"),
        (["bench", "liv"], "No such command 'liv'. Did you mean 'live'?"),
        (["node", "--tiemout", "1s"], "No such option: --tiemout"),
    ],
)
def test_mistakes_are_answered_as_ever(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert says in capsys.readouterr().err
