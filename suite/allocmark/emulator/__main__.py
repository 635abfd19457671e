"""``python -m allocmark.emulator [--gpu NAME] [--memory 24GiB] [--devices N] -- COMMAND``."""

from __future__ import annotations

from allocmark.emulator.command import COMMAND_FOLLOWS, emulate
from allocmark.system.command_line import run_command

if __name__ == "__main__":
    raise SystemExit(run_command(emulate, context_settings=COMMAND_FOLLOWS))
