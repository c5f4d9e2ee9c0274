"""Chapter 6 of seed 001 by itself: claims 40 to 47 of ``newtop``."""

from .newtop.membership import CLAIMS

__all__ = ["CLAIMS"]
