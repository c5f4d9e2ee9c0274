"""What is imported when it is first used: all names are there, and who needs little loads little."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import pytest

import plainchant
from plainchant import sim, trace
from plainchant.core.model import SECOND
from plainchant.lab.live import control
from plainchant.scenario.model import Network

HEAVY = ("aiohttp", "matplotlib", "numpy", "opentelemetry", "pandas", "prometheus_client", "pyarrow", "pyspark", "rich")
LAZY = {package.__name__: package for package in (plainchant, sim, trace)}


def loaded(code: str, given: bytes = b"") -> list[str]:
    """Which of the heavy packages a fresh process has loaded when it has run the code; its input does not end before it does."""
    end = f"import json, sys; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    source, sink = os.pipe()
    try:
        os.write(sink, given)
        done = subprocess.run([sys.executable, "-c", f"{code}\n{end}"], stdin=source, capture_output=True, text=True, timeout=60)
    finally:
        os.close(source)
        os.close(sink)
    assert done.returncode == 0, done.stderr
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return names


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["node", "--help"], ["node", "--example"], ["bench", "--help"], ["node", "no.toml"]]
)
def test_a_command_loads_only_what_it_needs(arguments: list[str]) -> None:
    assert loaded(f"from plainchant.cli import main\nmain({arguments})") == []


def test_a_member_imports_no_story_and_no_laboratory() -> None:
    code = (
        "import sys, plainchant; plainchant.join\n"
        "from plainchant.protocols.registry import protocols; protocols()\n"
        "print([name for name in sys.modules if name.endswith(('.story', '.exploration')) or name.startswith('plainchant.lab')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "code",
    [
        "import plainchant; plainchant.join",
        "import plainchant.live.config, plainchant.live.multicast, plainchant.live.tcp",
        "import plainchant.trace.spool, plainchant.trace.properties",
        "from plainchant.scenario import find, load; load(find('demo'))",
    ],
)
def test_a_member_needs_nothing_heavy(code: str) -> None:
    assert loaded(code) == []


def test_a_worker_that_records_needs_nothing_heavy(tmp_path: Path) -> None:
    task = control.Task(
        place="p1",
        incarnation=0,
        peers={"p1": ("127.0.0.1", 0)},
        protocol="sequencer",
        parameters={},
        packet=1400,
        groups={"g": ("p1",)},
        enter=("g",),
        forms=True,
        network=Network(),
        duration=SECOND,
        seed="7",
        trace=str(tmp_path),
        run="r0",
    )
    given = control.line(task) + control.line(control.End(drained=True))
    assert loaded("from plainchant.lab.live import worker; assert worker.main() == 0", given) == []
    assert list(tmp_path.rglob("*.spool"))


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("from plainchant.cli import main\nmain(['trace', '--help'])", "pyarrow"),
        ("from plainchant.trace import read", "pyarrow"),
        ("from plainchant.cli.console import output; output()", "rich"),
    ],
)
def test_what_is_needed_is_loaded_and_seen(code: str, heavy: str) -> None:
    assert heavy in loaded(code)


@pytest.mark.parametrize("package", LAZY.values(), ids=LAZY.keys())
def test_every_name_is_there_and_no_module_takes_its_place(package: ModuleType) -> None:
    modules = {module.name for module in iter_modules(package.__path__)}
    for name in package.__all__:
        value = getattr(package, name)
        assert isinstance(value, ModuleType) == (name in modules), f"{package.__name__}.{name} is a module at times"
        if isinstance(value, ModuleType):
            assert value is import_module(f"{package.__name__}.{name}")


@pytest.mark.parametrize("package", LAZY.values(), ids=LAZY.keys())
def test_a_name_that_is_not_there_is_an_attribute_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'validator'"):
        _ = package.validator
