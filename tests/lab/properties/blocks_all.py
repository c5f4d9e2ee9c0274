"""The cases of all building blocks together."""

from __future__ import annotations

from . import blocks, blocks_work

BAD = [*blocks.BAD, *blocks_work.BAD]
GOOD = [*blocks.GOOD, *blocks_work.GOOD]
NOTHING = [*blocks.NOTHING, *blocks_work.NOTHING]
