"""A process that creates a context by the bare driver and holds it, for the doctor to look at.

``python -m allocmark.measure.context_holder DEVICE PARENT`` answers once, and ends with its input.
"""

from __future__ import annotations

import sys

from allocmark.cuda import driver
from allocmark.experiments.shared.worker_process import answer
from allocmark.system.lifetime import end_with_parent


def _create(device: int) -> None:
    driver.init()
    driver.create_context(device)


def main(device: int, parent: int) -> None:
    """Create it, and wait."""
    end_with_parent(parent=parent)
    answer(lambda: _create(device))
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
