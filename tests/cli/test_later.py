"""Commands that are imported when they are called: the list of commands says what the commands say of themselves."""

from __future__ import annotations

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
    assert real.get_short_help_str(60) == command.get_short_help_str(60)
    assert real.hidden is command.hidden is False
    assert real.deprecated is command.deprecated is False


def test_all_commands_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(app.commands) == [*(command.name for command in COMMANDS), "key", "bench"]
    for arguments, commands in ((["--help"], COMMANDS), (["bench", "--help"], BENCHMARKS), (["key", "--help"], KEYS)):
        assert main(arguments) == 0
        listed = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
        for command in commands:
            assert any(line.split()[0] == command.name and line.split()[1:] for line in listed)


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
