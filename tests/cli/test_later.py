"""Commands that are imported when they are called: the list of commands says what the commands say of themselves."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from plainchant.cli import BENCHMARKS, COMMANDS, KEYS, app, main
from plainchant.cli.later import BESIDE, Later

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


@pytest.mark.parametrize(
    ("arguments", "package", "folder"),
    [
        (["reproduce", "sequencer"], "plainchant_papers", "papers"),
        (["demo"], "plainchant_workbench", "workbench"),
        (["bench", "sim"], "plainchant_workbench", "workbench"),
    ],
)
def test_a_command_of_a_package_that_is_not_installed_says_how_to_get_it(
    arguments: list[str], package: str, folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(package, monkeypatch)
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert f"`plainchant {arguments[-1] if arguments[0] == 'bench' else arguments[0]}` is in the package" in told
    assert f"{package.replace('_', '-')}, which is not installed" in told
    assert "`make setup`" in told
    assert f"`pip install ./{folder}`" in told


def test_the_list_of_commands_needs_no_other_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for package in BESIDE:
        hide(package, monkeypatch)
    assert main(["--help"]) == 0
    assert {"reproduce", "demo", "chaos", "bench"} <= set(capsys.readouterr().out.split())


def hide(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package was not installed: no finder finds it, and it is not imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Without(finder, package) for finder in sys.meta_path])


class _Without:
    """A finder that does not find one package."""

    def __init__(self, finder: Any, package: str) -> None:
        self._finder = finder
        self._package = package

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] == self._package else self._finder.find_spec(name, path, target)
