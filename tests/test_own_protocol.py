"""A protocol of another package (``docs/your-own-protocol.md``): installed beside the wheel, it is used like one of ours."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from .environments import ROOT, Environment, build_wheel, new_environment, our_wheel

EXAMPLE = ROOT / "examples" / "own-protocol"
PAGE = ROOT / "docs" / "your-own-protocol.md"
MODULE = "plainchant_fifo.py"
TESTS = "test_plainchant_fifo.py"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with both wheels, in which the packages of the running one can be imported."""
    pytest.importorskip("setuptools", minversion="77", reason="the environment of `make setup` has the pinned one")
    made = new_environment(tmp_path_factory.mktemp("own") / "env")
    made.install(our_wheel())
    made.install(build_wheel(EXAMPLE, tmp_path_factory.mktemp("fifo"), ("pyproject.toml", MODULE)))
    made.share()
    return made


def test_its_own_tests_pass_simulated_live_and_with_a_rule_taken_out(environment: Environment, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / TESTS, tmp_path)
    done = environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS, directory=tmp_path)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^13 passed", done.stdout, re.MULTILINE), done.stdout


def test_the_command_line_knows_it_after_our_own(environment: Environment, tmp_path: Path) -> None:
    done = environment.run("-m", "plainchant", "protocols", "--json", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    names = [each["name"] for each in json.loads(done.stdout)]
    assert names == ["sequencer", "newtop", "rtcast", "mailbox", "dedos", "fifo"]
    arguments = ["lossy-network", "--set", "protocol=fifo", "--set", "duration=200ms", "--out", "run"]
    done = environment.run("-m", "plainchant", "run", *arguments, directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^fifo +[\d,]+ +holds", done.stdout, re.MULTILINE), done.stdout
    done = environment.run("-m", "plainchant", "explain", "run", "--message", "g/p2/1", directory=tmp_path)
    assert "Delivered by all 5 that were members when it was sent." in done.stdout, done.stderr


def test_it_is_small() -> None:
    assert len((EXAMPLE / MODULE).read_text(encoding="utf-8").splitlines()) < 150


@pytest.mark.parametrize("name", ["pyproject.toml", MODULE, TESTS])
def test_the_page_shows_the_files(name: str) -> None:
    marker = re.escape(f"<!-- not run: from examples/own-protocol/{name} -->")
    shown = re.findall(marker + r"\n```\w+\n(.*?)\n```\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert "\n\n\n".join(shown) + "\n" == (EXAMPLE / name).read_text(encoding="utf-8")
