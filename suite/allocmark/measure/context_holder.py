"""A process that creates a context by the bare driver and holds it, for the doctor to look at.

``python -m allocmark.measure.context_holder DEVICE PARENT`` answers twice, when it has its
context and when it has allocated in it, and ends with its input.
"""

from __future__ import annotations

import sys

from allocmark.cuda import driver, runtime
from allocmark.experiments.shared.worker_process import answer
from allocmark.system.errors import NotMeasurableError
from allocmark.system.lifetime import end_with_parent
from allocmark.system.units import MIB

_BYTES = 4 * MIB


def _create(device: int) -> None:
    driver.init()
    driver.create_context(device)


def _allocate(device: int) -> None:
    """Allocate and write by the driver, and by the runtime where there is one."""
    block = driver.alloc(_BYTES)
    driver.fill(block, 0, _BYTES // 4)
    driver.synchronize()
    driver.free(block)
    try:
        runtime.library()
    except NotMeasurableError:
        return
    runtime.set_device(device)
    runtime.free(runtime.malloc(_BYTES))
    runtime.synchronize()


def main(device: int, parent: int) -> None:
    """Create it, allocate, and wait."""
    end_with_parent(parent=parent)
    answer(lambda: _create(device))
    answer(lambda: _allocate(device))
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
