"""The name of a figure, as patterns of thresholds match it and people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def figure_id_of(probe: str, subject: str, metric: str, axes: Mapping[str, Any]) -> str:
    """Return the name of a figure; axes in the order of their names."""
    words = [f"{name}={_axis(axes[name])}" for name in sorted(axes)]
    return " ".join([f"{probe}/{subject}/{metric}", *words])


def _axis(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
