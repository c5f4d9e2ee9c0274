"""``plainchant`` and ``python -m plainchant``: the command line, or a sentence that says how to install it."""

from __future__ import annotations

import sys

from .core.plugins import missing


def main() -> int:
    """Runs the command line and returns its exit status."""
    try:
        from .cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == __package__:
            raise
        print(f"plainchant: {missing(error, 'the command line needs', 'cli')}", file=sys.stderr)
        return 2
    return run()


if __name__ == "__main__":
    raise SystemExit(main())
