"""What metrics read in the ``detail`` of a row, which is JSON that protocols and applications write as they like."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import msgspec


class Detail(msgspec.Struct):
    """What metrics read in a ``detail``; they ignore everything else in it."""

    over: bool | None = None
    history: int | None = None
    request: int | None = None
    process: str | None = None
    processes: list[str] | None = None
    stream: str | None = None
    by: str | None = None
    fault: str | None = None
    length: int | None = None
    protocol: str | None = None
    state: str | None = None
    broken: str | None = None
    bounds: dict[str, int] | None = None
    records: list[str] | None = None
    took_ns: int | None = None
    decision: int | None = None
    timing: bool | None = None
    module: int | None = None
    count: int | None = None


_decode_detail: Final = msgspec.json.Decoder(Detail).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


def decode(text: str | None) -> Detail:
    """What metrics can use of a detail: a value of another type, or text that is no JSON, means something else."""
    if text is None:
        return Detail()
    try:
        return _decode_detail(text)
    except msgspec.MsgspecError:
        return _decode_what_fits(text)


def _decode_what_fits(text: str) -> Detail:
    try:
        given = _decode_object(text)
    except msgspec.MsgspecError:
        return Detail()
    found = Detail()
    for name in given.keys() & set(Detail.__struct_fields__):
        with contextlib.suppress(msgspec.ValidationError):
            setattr(found, name, getattr(msgspec.convert({name: given[name]}, Detail), name))
    return found
