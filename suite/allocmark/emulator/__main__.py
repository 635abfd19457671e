"""``python -m allocmark.emulator [--gpu NAME] [--memory 24GiB] [--devices N] -- COMMAND``."""

from __future__ import annotations

import argparse
import sys

from allocmark.emulator.launcher import emulate
from allocmark.system.errors import AllocmarkError
from allocmark.system.stopping import until_stopped
from allocmark.system.units import parse_bytes


def main() -> int:
    """Run the command line and return the command's exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m allocmark.emulator",
        description="Run a command on emulated NVIDIA GPUs: real allocators, no hardware.",
    )
    parser.add_argument("--gpu", metavar="PROFILE", help="the GPU to emulate (default: h200)")
    parser.add_argument("--memory", metavar="SIZE", help="capacity of each device, as in 24GiB")
    parser.add_argument("--devices", type=int, default=1, help="number of devices (default: 1)")
    parser.add_argument(
        "--times", action="store_true", help="driver calls take the time the profile has for them"
    )
    parser.add_argument("command", nargs="+", help="the command, after --")
    options = parser.parse_args()
    try:
        memory_bytes = parse_bytes(options.memory) if options.memory is not None else None
        return emulate(options.command, options.gpu, memory_bytes, options.devices, options.times)
    except AllocmarkError as error:
        print(f"allocmark: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(until_stopped(main))
