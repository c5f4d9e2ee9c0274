"""``make fuzz``: atheris on every target for a while each; and what replays its findings.

    python -m tests.fuzz --seconds 60 --findings findings     every target (``--target decoder``: one of them)
    python -m tests.fuzz --replay findings                    all findings again, without atheris

A finding is a file in a directory named after its target. The first line of what is printed about one says what it broke.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

LONGEST_INPUT = 4096
SLOWEST = 60
"""Seconds after which a target is taken for one that goes round for ever."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzzes the decoder, receive paths and readers.")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="where inputs go that break something")
    parser.add_argument("--target", help="only this one")
    parser.add_argument("--replay", type=Path, metavar="PATH", help="run findings again: a file, or a directory of them")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        return fuzz(given.target, given.seconds, given.findings)
    from .targets import TARGETS

    if given.target is not None and given.target not in TARGETS:
        parser.error(f"there is no target {given.target!r}; there are: {', '.join(TARGETS)}")
    if given.replay is not None:
        return replay(given.replay, given.target)
    names = [given.target] if given.target else list(TARGETS)
    broken = [name for name in names if not _in_a_process(name, given.seconds, given.findings)]
    if broken:
        print(f"\nfindings for {', '.join(broken)}; see them again with: python -m tests.fuzz --replay {given.findings}")
        return 1
    print(f"\n{len(names)} targets, {given.seconds} s each: nothing found")
    return 0


def _in_a_process(name: str, seconds: int, findings: Path) -> bool:
    """A fuzzer takes its process with it. True: it found nothing."""
    print(f"--- {name}, {seconds} s", flush=True)
    options = ["--here", "--target", name, "--seconds", str(seconds), "--findings", str(findings)]
    command = [sys.executable, "-m", "tests.fuzz", *options]
    return subprocess.run(command, check=False).returncode == 0


def fuzz(name: str, seconds: int, findings: Path) -> int:
    """One target under atheris, in this process, which ends with it."""
    try:
        atheris: Any = importlib.import_module("atheris")  # there are no packages of it for some platforms
    except ImportError:
        print("atheris is not installed: run `make fuzz`, which installs it from requirements/fuzz.txt", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["plainchant"], enable_loader_override=False):
        from .targets import TARGETS, seeds
    target = TARGETS[name]
    corpus = findings / f"{name}.corpus"
    found = findings / name
    for directory in (corpus, found):
        directory.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [
        f"-max_total_time={seconds}", f"-max_len={LONGEST_INPUT}", f"-timeout={SLOWEST}", f"-artifact_prefix={found}/",
        "-rss_limit_mb=4096", "-print_final_stats=1",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(corpus)], target)
    atheris.Fuzz()
    return 0


def replay(path: Path, only: str | None) -> int:
    """Runs findings again and says what each of them breaks."""
    from .targets import TARGETS

    files = [path] if path.is_file() else sorted(file for name in TARGETS for file in (path / name).glob("*") if file.is_file())
    broken = 0
    for file in files:
        name = only or file.parent.name
        if name not in TARGETS:
            print(f"{file}: say for which target it is, with --target", file=sys.stderr)
            return 2
        try:
            TARGETS[name](file.read_bytes())
        except Exception as problem:
            broken += 1
            print(f"{file}: {type(problem).__name__}: {problem}")
            traceback.print_exc()
    print(f"{len(files)} findings, {broken} of them still break something")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
