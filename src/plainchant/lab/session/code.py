"""The package's own code as a zip, by which it reaches executors that have no plainchant installed."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Final

from ... import __version__

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The same code gives the same zip, byte for byte, so that its name can carry its digest."""


def write_package(directory: Path) -> Path:
    """Writes the installed package into a zip in ``directory`` and returns its path."""
    package = Path(__file__).resolve().parents[2]
    files = sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    digest = hashlib.sha256()
    unnamed = directory / "package.zip"
    with zipfile.ZipFile(unnamed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            name, content = path.relative_to(package.parent).as_posix(), path.read_bytes()
            digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    # Python workers keep a zip of the same name that they have seen; another version of the code must have another name.
    return unnamed.rename(directory / f"plainchant-{__version__}-{digest.hexdigest()[:12]}.zip")
