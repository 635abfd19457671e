"""``python -m allocmark.nightly``: one night of one lane; ``nox -s nightly`` makes its environment.

Exit codes: 0 fine (or the first night), 1 a regression, 2 bad input or a step that failed, 3
where it was stopped (Ctrl-C, a full disk); with ``--exit-unclear`` that code where it stays
unclear.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from allocmark.system.errors import EXIT_BAD_INPUT, EXIT_FINE, EXIT_REGRESSION, AllocmarkError
from allocmark.system.sentences import sentence
from allocmark.system.stopping import until_stopped


def main(arguments: Sequence[str]) -> int:
    """Do a night, print its summary, return the exit code."""
    # Here, so that Ctrl-C while they are imported is a sentence, too.
    from allocmark.nightly.night import Options, run_night

    parser = argparse.ArgumentParser(
        prog="python -m allocmark.nightly",
        epilog="What follows -- goes to `allocmark run`: only that is measured.",
    )
    parser.add_argument("--lane", required=True, help="pinned, rolling, or a name of your own")
    parser.add_argument("--record", type=Path, default=Path("nightly"), help="holds all nights")
    parser.add_argument("--scratch", type=Path, default=Path("build/nightly"))
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--last", type=int, default=3, help="good nights it is held against")
    parser.add_argument("--rerun", type=int, default=2, help="rounds for what is unclear")
    parser.add_argument("--thresholds", type=Path)
    parser.add_argument("--exit-unclear", type=int, default=EXIT_FINE)
    parser.add_argument("--exit-regression", type=int, default=EXIT_REGRESSION)
    own, filters = _split(arguments)
    given = parser.parse_args(own)
    options = Options(
        given.record, given.scratch, given.lane, given.profile, filters, given.last, given.rerun,
        given.thresholds,
    )  # fmt: skip
    try:
        night = run_night(options, print)
    except AllocmarkError as error:
        print(sentence(error), file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if error.filename is None:
            raise
        what = f"{error.filename} cannot be used ({error.strerror})"
        print(f"allocmark: {what}: name another folder (--record, --scratch)", file=sys.stderr)
        return EXIT_BAD_INPUT
    codes: dict[str, int] = {"regression": given.exit_regression, "unclear": given.exit_unclear}
    return codes.get(night.outcome or "", EXIT_FINE)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    words = list(arguments)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


if __name__ == "__main__":
    raise SystemExit(until_stopped(lambda: main(sys.argv[1:])))
