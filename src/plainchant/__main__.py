"""``python -m plainchant``: the command line, for where the console script is not on the path."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
