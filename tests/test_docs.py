"""Every example in the README and the docs is run.

A page's blocks run in the order in which they stand, in one empty directory with a copy of ``scenarios/``: ``python``
blocks in one namespace, ``console`` blocks line by line where a line begins with ``$ plainchant``; ``toml`` and
``json`` blocks must parse. On the line before a block, ``<!-- exit 1 -->`` says with which status its last command
ends, and ``<!-- not run: why -->`` leaves it out, but Python is still compiled. Other languages that look as if they
were run are refused, so that nobody believes an example that nothing checks.

Commands run in the process of the tests, like those of ``tests/cli``, where some show that ``plainchant`` starts by itself.
Pages that use Spark share the session that other tests have.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
import shlex
import shutil
import signal
import sys
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from plainchant.cli import main

ROOT = Path(__file__).resolve().parent.parent
UNCHECKED = frozenset({"py", "pycon", "python3", "bash", "sh", "shell", "shell-session", "zsh"})
COMMAND_SECONDS_MAX = 120


# --- finding blocks -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line where the text starts, and what the comment before it says."""

    language: str
    text: str
    line: int
    status: int = 0
    left_out: bool = False


FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,})\s*(?P<language>[\w+-]*)")
EXIT = re.compile(r"<!-- exit (\d+) -->")
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")


def blocks(markdown: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = markdown.splitlines()
    number = 0
    before = ""
    while number < len(lines):
        opening = FENCE.match(lines[number])
        if opening is None:
            before = lines[number].strip() or before
            number += 1
            continue
        start = number + 1
        number = closing_line(lines, start, opening["fence"])
        text = "\n".join(line.removeprefix(opening["indent"]) for line in lines[start:number])
        exits = EXIT.fullmatch(before)
        yield Block(
            language=opening["language"],
            text=text + "\n",
            line=start + 1,
            status=int(exits[1]) if exits else 0,
            left_out=NOT_RUN.fullmatch(before) is not None,
        )
        before = ""
        number += 1


def closing_line(lines: list[str], start: int, fence: str) -> int:
    for number in range(start, len(lines)):
        line = lines[number].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return number
    raise AssertionError(f"the block that starts on line {start} is never closed")


def commands(block: Block) -> list[list[str]]:
    """The arguments of each ``$ plainchant`` line of a console block; a backslash continues a line."""
    joined = block.text.replace("\\\n", " ")
    found = [line.removeprefix("$ ") for line in joined.splitlines() if re.match(r"\$ plainchant\b", line)]
    for line in found:
        assert not re.search(r"[|<>;&`]|\$\(", line), f"{line!r}: examples run without a shell; write plain commands"
    return [shlex.split(line, comments=True)[1:] for line in found]


# --- running a page -------------------------------------------------------------------------------------------------


class Reader:
    """Does what a page says, as somebody would who starts in an empty directory."""

    def __init__(self, page: str) -> None:
        self.page = page
        # A module and not a mere dictionary: dataclasses and type hints look their names up in it.
        self.module = types.ModuleType("__main__")

    def follow(self, block: Block) -> None:
        where = f"{self.page}, line {block.line}"
        match block.language:
            case "python":
                # Empty lines in front, so that a traceback names the line of the page.
                code = compile("\n" * (block.line - 1) + block.text, self.page, "exec", dont_inherit=True)
                if not block.left_out:
                    exec(code, self.module.__dict__)
            case "console" if not block.left_out:
                arguments = commands(block)
                for number, each in enumerate(arguments, start=1):
                    self.command(each, block.status if number == len(arguments) else 0, where)
            case "toml" if not block.left_out:
                tomllib.loads(block.text)
            case "json" if not block.left_out:
                json.loads(block.text)
            case language:
                assert language not in UNCHECKED, f"{where}: write python or console, not {language}, so that it is run"

    def command(self, arguments: list[str], status: int, where: str) -> None:
        what = f"{where}: plainchant {shlex.join(arguments)}"
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), given_up_after(COMMAND_SECONDS_MAX, what):
            ended = main(arguments)
        assert ended == status, f"exit {ended} instead of {status}: {what}\n{said.getvalue()}"
        assert "Traceback (most recent call last)" not in said.getvalue(), f"{what}\n{said.getvalue()}"


@contextlib.contextmanager
def given_up_after(seconds: int, what: str) -> Iterator[None]:
    """Ends what takes too long with an error."""

    def give_up(number: int, frame: object) -> NoReturn:
        raise TimeoutError(f"not ended after {seconds} s: {what}")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def follow_page(markdown: str, page: str, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    reader = Reader(page)
    monkeypatch.setitem(sys.modules, "__main__", reader.module)
    for block in blocks(markdown):
        reader.follow(block)
    return reader


@pytest.fixture
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory to work in, but for a copy of the scenarios, which an example may then change."""
    if (ROOT / "scenarios").is_dir():
        shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios")
    monkeypatch.chdir(tmp_path)
    return tmp_path


ON_SPARK = re.compile(r"\bsession\(|plainchant (sweep|reproduce|demo|watch)\b")


def pages(*, on_spark: bool) -> list[str]:
    """The pages with examples: those that use Spark, or the others."""
    found = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        examples = list(blocks(path.read_text(encoding="utf-8"))) if path.is_file() else []
        run = [block.text for block in examples if block.language in ("python", "console") and not block.left_out]
        if examples and any(map(ON_SPARK.search, run)) == on_spark:
            found.append(str(path.relative_to(ROOT)))
    return found


@pytest.mark.usefixtures("empty_directory")
@pytest.mark.parametrize("page", pages(on_spark=False))
def test_the_examples_of_a_page_run(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    follow_page((ROOT / page).read_text(encoding="utf-8"), page, monkeypatch)


@pytest.mark.usefixtures("empty_directory", "spark")
@pytest.mark.parametrize("page", pages(on_spark=True))
def test_the_examples_of_a_page_that_uses_spark_run(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    follow_page((ROOT / page).read_text(encoding="utf-8"), page, monkeypatch)


# --- the runner itself ----------------------------------------------------------------------------------------------

SAMPLE = """# A page
```python
import dataclasses
@dataclasses.dataclass
class Point:
    x: "int"
```
Text between.

- in a list:
  ```python
  seen = Point(3).x
  assert __name__ == "__main__"
  ```

<!-- not run: needs two machines -->
```python
seen = 4
```

<!-- exit 2 -->

```console
$ plainchant protocols
sequencer
$ make setup
$ plainchant run nowhere.toml \\
    --seed 7
```
````text
```python
raise AssertionError("shown, not run")
```
````
```toml
x = 1
```
"""


def test_blocks_are_found_with_what_stands_before_them() -> None:
    found = list(blocks(SAMPLE))
    assert [block.language for block in found] == ["python", "python", "python", "console", "text", "toml"]
    assert [block.left_out for block in found] == [False, False, True, False, False, False]
    assert [block.status for block in found] == [0, 0, 0, 2, 0, 0]
    assert found[1].text.startswith("seen = Point(3).x\n")
    assert SAMPLE.splitlines()[found[1].line - 1].strip() == "seen = Point(3).x"
    assert commands(found[3]) == [["protocols"], ["run", "nowhere.toml", "--seed", "7"]]


@pytest.mark.usefixtures("empty_directory")
def test_python_blocks_share_one_namespace_and_skipped_ones_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    before_the_commands = SAMPLE[: SAMPLE.index("<!-- exit")]
    reader = follow_page(before_the_commands, "sample.md", monkeypatch)
    assert reader.module.__dict__["seen"] == 3


@pytest.mark.parametrize(
    ("markdown", "error"),
    [
        ("```python\nassert 1 == 2\n```", AssertionError),
        ("```python\n1 / 0\n```", ZeroDivisionError),
        ("<!-- not run: because -->\n```python\nthis is no Python\n```", SyntaxError),
        ("```toml\nx =\n```", tomllib.TOMLDecodeError),
        ("```json\n{\n```", json.JSONDecodeError),
        ("```bash\nplainchant demo\n```", AssertionError),
        ("```console\n$ plainchant trace x | head\n```", AssertionError),
        ("```console\n$ plainchant no-such-command\n```", AssertionError),
        ("```python\nx = 1\n", AssertionError),
    ],
)
@pytest.mark.usefixtures("empty_directory")
def test_a_wrong_example_is_found(markdown: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(error):
        follow_page(markdown, "wrong.md", monkeypatch)


@pytest.mark.usefixtures("empty_directory")
def test_a_comment_without_a_reason_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        follow_page("<!-- not run: -->\n```python\n1 / 0\n```", "wrong.md", monkeypatch)
