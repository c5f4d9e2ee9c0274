"""``python -m tests.digests``: compares all digests, or writes them anew."""

from __future__ import annotations

import argparse
import sys
import tomllib

from tests.digests.digests import PATH, cases, digest
from tests.protocols.sweeping import processes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.digests", description="Compares runs with those on record.")
    parser.add_argument("--write", action="store_true", help="write the digests anew instead of comparing them")
    parser.add_argument("--only", default="", help="only cases that begin with this, such as dedos or scenario/newtop")
    asked = parser.parse_args()
    chosen = [case for case in cases() if case.startswith(asked.only)]
    known = tomllib.loads(PATH.read_text()) if PATH.exists() else {}
    found: dict[str, str] = {}
    with processes() as pool:
        for number, (case, value) in enumerate(zip(chosen, pool.map(digest, chosen), strict=True), 1):
            found[case] = value
            if not asked.write and known.get(case) != value:
                print(f"{case}: {value}, on record {known.get(case)}", flush=True)
            if not number % 50:
                print(f"{number} of {len(chosen)}", file=sys.stderr, flush=True)
    if asked.write:
        kept = {case: value for case, value in {**known, **found}.items() if case in cases()}
        PATH.write_text("".join(f'"{case}" = "{value}"\n' for case, value in kept.items()))
        print(f"{len(found)} digests written to {PATH}")
        return 0
    differing = [case for case in chosen if known.get(case) != found[case]]
    print(f"{len(chosen) - len(differing)} of {len(chosen)} digests are as on record")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
