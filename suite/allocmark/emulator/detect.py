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


def computed_values_copied() -> bool:
    """Return whether this process copied device memory to the host, where it reads as zeros."""
    if not is_emulated():
        return False
    return bool(ctypes.CDLL("libcuda.so.1").allocmark_emulator_computed_copied())
