"""Is the driver of this process the emulated one? Asks the library itself, not a variable."""

from __future__ import annotations

import ctypes

_NOT_SUPPORTED = ("not supported", "not_supported", "801")
"""In what frameworks say of the error that a function which is not emulated gives."""


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


def refusal(reason: str) -> str | None:
    """Return what the emulated driver refused this process, where `reason` may come from that."""
    if not is_emulated():
        return None
    driver = ctypes.CDLL("libcuda.so.1")
    if driver.allocmark_emulator_foreign_runtime():
        return "it brings a CUDA runtime of its own, which the emulated driver does not run"
    driver.allocmark_emulator_lacking.restype = ctypes.c_char_p
    name = driver.allocmark_emulator_lacking()
    if name is None or not any(word in reason.lower() for word in _NOT_SUPPORTED):
        return None
    return f"the emulated driver lacks {name.decode()}"
