"""Fails a pull request when a model needs a larger card than before.

    allocmark emulate --memory 80GiB -- allocmark record --out step.pickle -- python one_step.py
    python examples/check_smallest_card.py step.pickle smallest_card.json

The JSON file is committed; ``--update`` writes it anew when more memory is what was wanted. No GPU
is needed: the replay runs torch's own allocator on the emulated driver.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import allocmark
from allocmark.system.errors import AllocmarkError

TOLERANCE = 0.01
"""The search for the smallest card is settled to 0.5 % of what is alive at the peak."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 where the smallest card did not grow, 1 where it did, 2 where it is not known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("baseline", type=Path)
    parser.add_argument("--setting", default="torch-native", help="what the job runs under")
    parser.add_argument("--update", action="store_true", help="take what is found as the baseline")
    options = parser.parse_args(arguments)
    try:
        return check(options.snapshot, options.baseline, options.setting, options.update)
    except AllocmarkError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def check(snapshot: Path, baseline: Path, setting: str, update: bool) -> int:
    """Return as `main` does. Raises `AllocmarkError` for what cannot be replayed or compared."""
    frame = allocmark.replay(snapshot, [setting], emulated=True)
    if differs := frame.attrs.get("contradiction"):
        raise AllocmarkError(f"{snapshot}: {differs['what']} ({differs['cause']})")
    row = frame.set_index("setting").loc[setting]
    if row["reason"]:
        raise AllocmarkError(f"{snapshot} could not be replayed: {row['reason']}")
    found = int(row["smallest_card_bytes"])
    if update:
        baseline.write_text(json.dumps({"smallest_card_bytes": found}) + "\n")
        return 0
    try:
        before = int(json.loads(baseline.read_text())["smallest_card_bytes"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AllocmarkError(f"{baseline} holds no smallest card: make it with --update") from error
    print(f"smallest card: {found / 2**30:.2f} GiB, was {before / 2**30:.2f} GiB")
    return 1 if found > before * (1 + TOLERANCE) else 0


if __name__ == "__main__":
    raise SystemExit(main())
