"""Output directories and files that are whole or not there at all.

Everything is written into a hidden directory beside the one that was asked for and renamed at the end. Ctrl-C, a full
disk, any exception: the hidden one is removed, and nothing is left that later looks like a result.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from ..core.model import PlainchantError

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]+:/")
"""A path has one of an address's two strokes left."""
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_UNWRITABLE: Final = (*_NO_ROOM, errno.EROFS, errno.EFBIG)


class OutputError(PlainchantError):
    """Results cannot be written where they were asked for."""


def remedy(error: OSError, place: str) -> str:
    """What to do about a write that failed; making room helps only where there was none."""
    room = "make room or " if error.errno in _NO_ROOM else ""
    return f"{room}choose another {place}"


def unwritten(error: OSError) -> str | None:
    """The sentence for a write that failed where no other says it: to standard output, for one. None for other errors."""
    if error.errno not in _UNWRITABLE:
        return None
    return f"cannot write {error.filename or 'the output'}: {error.strerror}; {remedy(error, 'place')}"


def refuse_address(target: Path) -> None:
    """Results are files of this machine's; an address of a store would become a directory that is called so."""
    if _ADDRESS.match(str(target)):
        raise OutputError(f"{target} is an address, and results go to files and directories: write them here, then copy them")


def refuse_occupied(target: Path) -> None:
    """An output directory must be new or empty: nothing of anybody's is ever written over."""
    refuse_address(target)
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.exists() or target.is_symlink():
        kind = "exists and is not empty" if target.is_dir() else "exists and is not a directory"
        raise OutputError(f"{target} {kind}; name another directory with --out, or remove it first")


def write_whole(file: Path, text: str) -> None:
    """Writes a file whole or not at all: beside its place first, then renamed over what was there."""
    with whole_file(file) as hidden:
        hidden.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """A place beside the file to write it to: it becomes the file if the block ends well, and vanishes if it does not."""
    refuse_address(file)
    hidden = file.with_name(f".{file.name}.partial")
    try:
        yield hidden
        hidden.replace(file)
    except BaseException as error:
        with contextlib.suppress(OSError):  # where nothing can be written nothing can be removed, and there is nothing
            hidden.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise OutputError(f"cannot write {file}: {error.strerror or error}; {remedy(error, 'place')}") from error


def write_new(file: Path, text: str, option: str) -> None:
    """Writes a file that does not exist yet, which the user named with ``option``."""
    if file.exists():
        raise OutputError(f"{file} exists; name another file with {option}, or remove it first")
    write_whole(file, text)


def write_or_print(file: Path, text: str) -> None:
    """Writes a file, or standard output if its name is ``-``."""
    if str(file) == "-":
        print(text, end="")
    else:
        write_whole(file, text)


def json_text(document: Any) -> str:
    """A document as a JSON file has it, for people and programs."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


@contextlib.contextmanager
def staged(target: Path, *, replace: Callable[[Path], bool] = lambda target: False) -> Iterator[Path]:
    """A directory to write into, which becomes ``target`` if the block ends well and vanishes if it does not.

    ``replace`` says whether what stands at the target may go (it goes only when the new one is complete).
    """
    refuse_address(target)
    target = Path(os.path.abspath(target))
    may_replace = target.exists() and replace(target)
    if not may_replace:
        refuse_occupied(target)
    made = [parent for parent in target.parents if not parent.exists()]
    hidden = target.parent / f".{target.name}.partial-{os.getpid()}"
    try:
        hidden.mkdir(parents=True)
        yield hidden
        if may_replace:
            shutil.rmtree(target)
        hidden.rename(target)
    except BaseException as error:
        shutil.rmtree(hidden, ignore_errors=True)
        for parent in made:
            with contextlib.suppress(OSError):
                parent.rmdir()  # only what we made, and only if nobody has put anything there
        if not isinstance(error, OSError):
            raise
        kept = f"{error.strerror or error}; nothing was kept there"
        raise OutputError(f"cannot write to {target}: {kept}; {remedy(error, 'directory')}") from error
