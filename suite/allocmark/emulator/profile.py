"""A profile: what one model of GPU and its driver say of themselves and cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from allocmark.errors import AllocmarkError, UnknownNameError

_FOLDER = Path(__file__).parent / "profiles"
DEFAULT = "h200"
# What the C side reads as numbers, in its own names; bytes where the name says so.
NUMBERS = (
    "cuda_version",
    "compute_major",
    "compute_minor",
    "multiprocessors",
    "memory_bytes",
    "context_bytes",
    "context_unlisted_bytes",
    "context_eager_bytes",
    "first_kernel_bytes",
    "first_blas_bytes",
    "first_blas_eager_bytes",
    "lag_calls",
)


@dataclass(frozen=True)
class Profile:
    """The figures of one GPU model; `name` is the real one, without "Emulated"."""

    name: str
    driver_version: str
    numbers: dict[str, int]


def known() -> list[str]:
    """Return the names of the profiles that ship with the suite."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def load(name: str) -> Profile:
    """Return the profile called `name`. Raises `UnknownNameError`."""
    if name not in known():
        raise UnknownNameError("GPU profile", name, known())
    path = _FOLDER / f"{name}.json"
    document = json.loads(path.read_text())
    missing = [key for key in NUMBERS if not isinstance(document.get(key), int)]
    if missing:
        raise AllocmarkError(f"{path.name} lacks {', '.join(missing)}: give each as a whole number")
    if document.get("call_times_ns"):
        raise AllocmarkError(f"{path.name} has call_times_ns, which is reserved: leave it empty")
    return Profile(
        name=document["name"],
        driver_version=document["driver_version"],
        numbers={key: document[key] for key in NUMBERS},
    )
