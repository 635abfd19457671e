"""Is the driver of this process the emulated one? Asks the library itself, not a variable."""

from __future__ import annotations

import ctypes


def is_emulated() -> bool:
    """Return whether libcuda.so.1 is the emulator's; False where there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return hasattr(driver, "allocmark_emulator_version")
