"""Builds the shim to be taken along to where TensorFlow came without its headers."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from allocmark.allocators.tensorflow_gpu import shim
from allocmark.system.errors import EXIT_BAD_INPUT, EXIT_FINE, AllocmarkError
from allocmark.system.sentences import sentence
from allocmark.system.stopping import until_stopped

_USAGE = "usage: python -m allocmark.allocators.tensorflow_gpu build FILE"


def main(arguments: list[str]) -> int:
    """Build the shim for the installed TensorFlow; returns the exit code."""
    match arguments:
        case ["build", file]:
            pass
        case _:
            print(_USAGE, file=sys.stderr)
            return EXIT_BAD_INPUT
    try:
        shutil.copyfile(shim.build(), Path(file))
    except (AllocmarkError, OSError) as error:
        text = sentence(error) if isinstance(error, AllocmarkError) else str(error)
        print(text, file=sys.stderr)
        return EXIT_BAD_INPUT
    print(f"{file}: for TensorFlow {shim.installed_version()}, to be named by {shim.VARIABLE}")
    return EXIT_FINE


if __name__ == "__main__":
    raise SystemExit(until_stopped(lambda: main(sys.argv[1:])))
