"""Our own code as a zip, by which it reaches executors that have no plainchant installed.

The zip has ``plainchant`` and every imported package whose name begins with ``plainchant_``: the papers' experiments run as tasks
too, and so do protocols of other distributions that follow the convention.
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ... import __version__

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The same code gives the same zip, byte for byte, so that its name can carry its digest."""


def write_package(directory: Path) -> Path:
    """Writes our code into a zip in ``directory`` and returns its path."""
    digest = hashlib.sha256()
    unnamed = directory / "package.zip"
    with zipfile.ZipFile(unnamed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(_files()):
            content = path.read_bytes()
            digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    # Python workers keep a zip of the same name that they have seen; another version of the code must have another name.
    return unnamed.rename(directory / f"plainchant-{__version__}-{digest.hexdigest()[:12]}.zip")


def _files() -> Iterator[tuple[str, Path]]:
    """The files of the zip, each with its name there."""
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or file is None or not (name == "plainchant" or name.startswith("plainchant_")):
            continue
        path = Path(file).resolve()
        if path.name != "__init__.py":
            yield path.name, path
            continue
        for each in path.parent.rglob("*"):
            if each.is_file() and "__pycache__" not in each.parts:
                yield each.relative_to(path.parent.parent).as_posix(), each
