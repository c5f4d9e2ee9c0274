"""House rules that a machine can check: what protocols may import, pins, paths, docstrings, links.

Each check is a function from text to the problems it finds, so that the rule is tested twice: on the repository, where
it must find nothing, and on a small planted offence, which it must find.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "plainchant"
PROTOCOLS = PACKAGE / "protocols"
PAPERS = ROOT / "papers" / "plainchant_papers"
WORKBENCH = ROOT / "workbench" / "plainchant_workbench"


def test_the_rules_look_at_something() -> None:
    assert len(repository_files()) > 20
    assert list(PROTOCOLS.rglob("*.py"))
    assert {path.name for path in requirements_files()} == {"build.txt", "dev.txt", "fuzz.txt"}


# --- what protocols may import --------------------------------------------------------------------------------------

# Whatever reaches the world or differs from run to run. Protocols ask their host for it instead.
WORLDLY = frozenset(
    {"asyncio", "concurrent", "logging", "multiprocessing", "select", "selectors", "signal", "socket", "ssl"}
    | {"datetime", "importlib", "os", "pyspark", "random", "secrets", "subprocess", "tempfile", "threading"}
    | {"time", "uuid"}
)


def imported(source: str, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything that a module imports, wherever in it the import stands."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *(node.module or "").split(".")]).strip(".")
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def import_problems(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """What a module under ``protocols`` imports although it must not."""
    own = ".".join(module.split(".")[:3]) if is_package or module.count(".") > 2 else "plainchant.protocols"
    shared = (f"plainchant.protocols.{name}" for name in ("registry", "buffers", "story", "exploration", "variants"))
    allowed = (*(f"plainchant.core.{name}" for name in ("engine", "memory", "model", "names", "words")), *shared, own)
    if module == "plainchant.protocols.registry":
        allowed = (*allowed, "plainchant.core.plugins")  # where protocols of other distributions are looked up
    problems = []
    for line, name in imported(source, module, is_package=is_package):
        top = name.split(".")[0]
        ours_and_allowed = any(name == each or name.startswith(f"{each}.") for each in allowed)
        if top in WORLDLY or (top == "plainchant" and not ours_and_allowed):
            problems.append(f"{module}, line {line}: imports {name}")
    return problems


def test_protocols_import_only_the_contract_and_their_own_package() -> None:
    problems = []
    for path in sorted(PROTOCOLS.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        problems += import_problems(path.read_text(encoding="utf-8"), module, is_package=is_package)
    assert not problems, "protocols ask their host instead:\n" + "\n".join(problems)


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import os.path",
        "from random import Random",
        "import msgspec, asyncio",
        "def later():\n    import socket",
        "from ...sim import network",
        "from ... import sim",
        "from plainchant.trace import reader",
        "import plainchant.sim",
        "import plainchant",
        "from ..newtop import blocks",
        "from .. import newtop",
        "if TYPE_CHECKING:\n    from ...live import node",
    ],
)
def test_a_protocol_that_reaches_out_is_found(source: str) -> None:
    assert len(import_problems(source, "plainchant.protocols.sequencer.member")) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import dataclasses, msgspec",
        "from ...core.model import Batch, View",
        "from ...core import engine",
        "from plainchant.core.engine import Host",
        "from . import packets",
        "from .packets import Request",
        "from ..registry import Description",
        "from timeit_of_ours import x",
    ],
)
def test_what_a_protocol_needs_is_allowed(source: str) -> None:
    assert import_problems(source, "plainchant.protocols.sequencer.member") == []


def test_imports_are_resolved_from_where_they_stand() -> None:
    assert import_problems("from .member import Member", "plainchant.protocols.sequencer", is_package=True) == []
    assert import_problems("from ..newtop import x", "plainchant.protocols.sequencer", is_package=True)
    assert import_problems("from .sequencer import DESCRIPTION", "plainchant.protocols.registry") == []
    assert import_problems("from ..sim import x", "plainchant.protocols.registry")


# --- names of processes ---------------------------------------------------------------------------------------------

NAMES = "src/plainchant/core/names.py"
OTHER_MARKS = {
    "src/plainchant/live/keys.py": "comments in a key file",
    "src/plainchant/scenario/locate.py": "comments in TOML",
}
"""Files in which a "#" has another meaning than the incarnation mark."""


def mark_problems(source: str) -> list[int]:
    """The lines that make or parse a name with an incarnation: a "#" alone in a string, or behind a formatted value."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            pairs = zip(node.values, node.values[1:], strict=False)
            if any(isinstance(a, ast.FormattedValue) and isinstance(b, ast.Constant) and b.value == "#" for a, b in pairs):
                lines.append(node.lineno)
        elif isinstance(node, ast.Call | ast.Compare) and any(
            isinstance(each, ast.Constant) and each.value == "#" for each in ast.iter_child_nodes(node)
        ):
            lines.append(node.lineno)
    return lines


def test_names_of_processes_are_made_and_parsed_in_one_place() -> None:
    problems = []
    for directory in ("src", "papers", "workbench"):
        for path in sorted((ROOT / directory).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name != NAMES and name not in OTHER_MARKS:
                problems += [f"{name}, line {line}" for line in mark_problems(path.read_text(encoding="utf-8"))]
    assert not problems, "use plainchant.core.names instead:\n" + "\n".join(problems)


def test_files_with_another_meaning_of_the_mark_have_it() -> None:
    assert [name for name in OTHER_MARKS if not mark_problems((ROOT / name).read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("source", ['x.partition("#")[0]', '"#" in x', 'f"{place}#{number}"', 'x.split("#", 1)', 'x.find("#")'])
def test_a_name_that_is_parsed_elsewhere_is_found(source: str) -> None:
    assert mark_problems(source) == [1]


# --- where protocols are named --------------------------------------------------------------------------------------

OTHER_MEANINGS = {("cli/doctor.py", "mailbox")}
"""Texts that are a protocol's name and mean something else: a mailbox in shared memory."""


def name_problems(source: str, path: str, names: frozenset[str]) -> list[str]:
    """Where a module has a protocol's name as a text of its own: to compare it, to look it up, or as a default."""
    found = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [
        f"{path}, line {node.lineno}: {node.value!r}"
        for node in found
        if node.value in names and (path, node.value) not in OTHER_MEANINGS
    ]


def test_only_protocols_know_a_protocol_by_its_name() -> None:
    names = frozenset(path.parent.name for path in PROTOCOLS.glob("*/__init__.py"))
    assert len(names) >= 5
    problems = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if not path.is_relative_to(PROTOCOLS):
            problems += name_problems(path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).as_posix(), names)
    assert not problems, "ask the protocol's description or its story instead:\n" + "\n".join(problems)


@pytest.mark.parametrize(
    "source",
    [
        'if rows.protocol() == "newtop": pass',
        'is_ring = name in ("newtop", "rtcast-like")',
        'def join(protocol: str = "newtop"): pass',
        'match name:\n    case "newtop":\n        pass',
        '{"newtop": 1}[name]',
    ],
)
def test_a_protocol_known_by_its_name_is_found(source: str) -> None:
    assert len(name_problems(source, "lab/show.py", frozenset({"newtop"}))) == 1
    assert name_problems('"""newtop is told otherwise."""', "lab/show.py", frozenset({"newtop"})) == []


# --- requirements ---------------------------------------------------------------------------------------------------

PINNED = re.compile(r"[A-Za-z0-9._-]+==[^\s;]+( ;[^\\]+?)?( --hash=sha256:[0-9a-f]{64})+")


def requirements_files() -> list[Path]:
    return sorted((ROOT / "requirements").glob("*.txt"))


def requirement_lines(text: str) -> list[str]:
    """The requirements of a file, one a line: continuations joined, comments gone, spaces single."""
    joined = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*$", "", text))
    return [" ".join(line.split()) for line in joined.splitlines() if line.strip()]


def pin_problems(text: str) -> list[str]:
    """Lines that are not one exact version with its hashes, and addresses anywhere, comments included."""
    problems = [line for line in requirement_lines(text) if not PINNED.fullmatch(line)]
    return problems + [line for line in text.splitlines() if "://" in line or "index" in line or "find-links" in line]


def pins(path: Path) -> dict[str, str]:
    """Name to version of a requirements file."""
    pairs = (line.split()[0].split("==") for line in requirement_lines(path.read_text(encoding="utf-8")))
    return {canonicalize_name(name): version for name, version in pairs}


@pytest.mark.parametrize("path", requirements_files(), ids=lambda path: path.name)
def test_requirements_are_pinned_with_hashes_and_name_no_index(path: Path) -> None:
    assert pin_problems(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "six==1.17.0\n",
        "six>=1.17.0 --hash=sha256:" + "0" * 64 + "\n",
        "six==1.17.0 \\\n    --hash=sha256:" + "0" * 63 + "\n",
        "--index-url somewhere\n",
        "--find-links wheels\n",
        "# from https://index.example\n",
        "-e .\n",
    ],
)
def test_a_loose_requirement_is_found(text: str) -> None:
    assert pin_problems(text)


def test_every_declared_dependency_is_pinned_at_a_version_it_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    declared = [*project["project"]["dependencies"], *(each for extra in extras for each in extra)]
    declared = [each for each in declared if Requirement(each).name != "plainchant"]  # an extra that contains another one
    declared += input_lines(ROOT / "requirements" / "dev.in")
    assert_pinned(declared, pins(ROOT / "requirements" / "dev.txt"))

    building = project["build-system"]["requires"] + input_lines(ROOT / "requirements" / "build.in")
    assert_pinned(building, pins(ROOT / "requirements" / "build.txt"))


def input_lines(path: Path) -> list[str]:
    return [line for line in requirement_lines(path.read_text(encoding="utf-8")) if not line.startswith("-")]


def assert_pinned(declared: list[str], pinned: dict[str, str]) -> None:
    for requirement in map(Requirement, declared):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not pinned: run `make pins`"
        assert requirement.specifier.contains(version), f"{requirement} is pinned at {version}: run `make pins`"


# --- what the repository may say ------------------------------------------------------------------------------------

# In pieces, so that this file does not offend against itself.
MACHINE_PATHS = re.compile(rb"(?<![\w.~*-])/(?:wo" rb"rk|ro" rb"ot|ho" rb"me/\w+)\b")
INDEX_HOSTS = re.compile(rb"py" rb"pi\.org|python" rb"hosted|test\.py" rb"pi", re.IGNORECASE)


def repository_files() -> list[Path]:
    """The files under version control or about to be; without git (an unpacked archive), all but what tools made."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = list(walked_files())
    return sorted(path for name in listed if name and (path := ROOT / name).is_file())


def walked_files() -> Iterator[str]:
    made = re.compile(r"\.(?!ci$).*|__pycache__|build|dist|runs|out|spark-warehouse|.*\.egg-info")
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not made.fullmatch(name)]
        yield from (os.path.relpath(os.path.join(folder, name), ROOT) for name in names)


def mention_problems(content: bytes) -> list[str]:
    """Paths of somebody's machine and addresses of package indexes in a file."""
    found = [*MACHINE_PATHS.finditer(content), *INDEX_HOSTS.finditer(content)]
    return [match.group().decode() for match in found]


def test_no_file_names_a_machine_path_or_a_package_index() -> None:
    problems = {str(path.relative_to(ROOT)): mention_problems(path.read_bytes()) for path in repository_files()}
    assert {name: found for name, found in problems.items() if found} == {}


@pytest.mark.parametrize(
    "content",
    ["see /" + "work/main/src", 'open("/' + 'root/x")', "in /" + "home/ann/plainchant", "https://py" + "pi.org/simple"],
)
def test_a_machine_path_is_found(content: str) -> None:
    assert len(mention_problems(content.encode())) == 1


@pytest.mark.parametrize("content", ["the framework/workload", "/workload", "./root", "a/root of the tree", "/rooted"])
def test_ordinary_words_are_no_machine_paths(content: str) -> None:
    assert mention_problems(content.encode()) == []


# --- packages beside the library -----------------------------------------------------------------------------------


def source_files() -> list[Path]:
    """The modules of the library, the papers and the workbench, with their tests."""
    return sorted(path for package in (PACKAGE, PAPERS, WORKBENCH) for path in package.rglob("*.py"))


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """The module of a file beside the library, or in it, and each name that it imports."""
    root = SOURCE if path.is_relative_to(SOURCE) else ROOT / path.relative_to(ROOT).parts[0]
    parts = path.relative_to(root).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    yield from ((module, name) for _, name in imported(path.read_text(encoding="utf-8"), module, is_package=is_package))


def beside_problems(module: str, name: str) -> bool:
    """Whether an import goes the wrong way: into a package beside the library, from one to the other, or between papers."""
    home, target = module.split("."), name.split(".")
    beside = ("plainchant_papers", "plainchant_workbench")
    if target[0] in beside and target[0] != home[0]:
        return True
    papers = {path.parent.parent.name for path in PAPERS.glob("*/tests/__init__.py")} - {PAPERS.name}
    return home[0] == target[0] == "plainchant_papers" and home[1] in papers and target[1] in papers - {home[1]}


def test_the_library_needs_no_package_beside_it_and_papers_not_each_other() -> None:
    problems = [
        f"{module}: imports {name}"
        for path in source_files()
        for module, name in imports_of(path)
        if len(name.split(".")) > 1 and len(module.split(".")) > 1 and beside_problems(module, name)
    ]
    assert problems == []


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("plainchant.cli.reproduce", "plainchant_papers.claims"),
        ("plainchant_papers.newtop.transports", "plainchant_workbench.live.processes"),
        ("plainchant_workbench.chaos.plan", "plainchant_papers.runs"),
        ("plainchant_papers.mailbox.bounds", "plainchant_papers.dedos.towns"),
    ],
)
def test_an_import_that_goes_the_wrong_way_is_found(module: str, name: str) -> None:
    assert beside_problems(module, name)


def test_every_paper_has_its_errata_its_claims_and_its_tests() -> None:
    from plainchant_papers import NAMES

    papers = {path.parent.name for path in PAPERS.glob("*/errata.md")}
    assert papers == set(NAMES) - {"membership"}
    for paper in papers:
        assert (PAPERS / paper / "tests" / "test_claims.py").is_file()


# --- docstrings -----------------------------------------------------------------------------------------------------


def test_every_folder_of_modules_is_a_package() -> None:
    folders = sorted({path.parent for path in source_files()})
    assert [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [path for path in source_files() if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert [str(path.relative_to(ROOT)) for path in silent] == []


# --- links ----------------------------------------------------------------------------------------------------------

CODE = re.compile(r"(?ms)^ *(`{3,}).*?^ *\1`*$|`[^`\n]+`")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|(?m:^ {0,3}\[[^\]]+\]:\s*(\S+))")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")
HEADING = re.compile(r"(?m)^#+ +(.+?) *#*$")
ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")


def anchors_of(text: str) -> set[str]:
    """What links may name on a markdown page: its headings, in the form that web pages of repositories give them."""
    plain = re.sub(r"(?ms)^ *(`{3,}).*?^ *\1`*$", "", text)
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in HEADING.findall(plain)]
    named = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return {*named, *ANCHOR.findall(plain)}


def link_problems(text: str, page: Path) -> list[str]:
    """Links of a markdown page to files or headings that do not exist. Code is not looked at."""
    targets = [first or second for first, second in LINK.findall(CODE.sub("", text))]
    return [target for target in targets if not ELSEWHERE.match(target) and not _leads_somewhere(target, text, page)]


def _leads_somewhere(target: str, text: str, page: Path) -> bool:
    name, _, anchor = target.partition("#")
    path = page.parent / name
    if not path.exists():
        return False
    if not anchor or (name and path.suffix != ".md"):
        return True
    return anchor in anchors_of(path.read_text(encoding="utf-8") if name else text)


def test_markdown_links_only_to_what_exists() -> None:
    pages = [path for path in repository_files() if path.suffix == ".md"]
    problems = {str(page.relative_to(ROOT)): link_problems(page.read_text(encoding="utf-8"), page) for page in pages}
    assert {name: found for name, found in problems.items() if found} == {}


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "here.md").write_text("# The `one` part\n```text\n# no part\n```\n")
    text = """# Above
[good](here.md) [part](here.md#the-one-part) [web](https://example.org/x) [above](#above)
[bad](gone.md) ![picture](gone.png "title") `[code](not-a-link.md)` [far](here.md#no-part) [below](#below)
[reference]: gone-too.md
```text
[block](not-a-link.md)
```
"""
    assert link_problems(text, tmp_path / "page.md") == ["gone.md", "gone.png", "here.md#no-part", "#below", "gone-too.md"]
