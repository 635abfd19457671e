"""Errors as a person is told them."""

from __future__ import annotations

from allocmark.errors import AllocmarkError, NoGpuError


def sentence(error: AllocmarkError) -> str:
    """Return one sentence, with a way out where there is no GPU to measure."""
    if isinstance(error, NoGpuError):
        return f"allocmark: {error} (allocmark emulate -- COMMAND)"
    return f"allocmark: {error}"
