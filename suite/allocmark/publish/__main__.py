"""``python -m allocmark.publish``: builds the site; ``nox -s publish`` installs what it needs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from allocmark.system.errors import EXIT_FINE, AllocmarkError, of_system
from allocmark.system.sentences import sentence
from allocmark.system.stopping import until_stopped


def main(arguments: Sequence[str]) -> int:
    """Build and say where; returns the exit code."""
    # Here, so that Ctrl-C while they are imported is a sentence, too.
    from allocmark.publish.whole_site import Sources, build

    parser = argparse.ArgumentParser(prog="python -m allocmark.publish")
    parser.add_argument("roots", nargs="*", type=Path, help="results folders, or folders of them")
    parser.add_argument("--project", type=Path, default=Path(), help="a clone of allocmark")
    parser.add_argument("--out", type=Path, default=Path("build/site"))
    parser.add_argument("--scratch", type=Path, default=Path("build/publish"))
    given = parser.parse_args(arguments)
    roots = given.roots or [root for root in (Path("results"), Path("nightly")) if root.is_dir()]
    try:
        for reason in build(Sources(roots, given.project.absolute()), given.out, given.scratch):
            print(f"left out: {reason}", file=sys.stderr)
    except AllocmarkError as error:
        print(sentence(error), file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if (told := of_system(error)) is None:
            raise
        print(sentence(told), file=sys.stderr)
        return told.exit_code
    print(given.out / "index.html")
    return EXIT_FINE


if __name__ == "__main__":
    raise SystemExit(until_stopped(lambda: main(sys.argv[1:])))
