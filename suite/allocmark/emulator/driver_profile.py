"""A profile: what one model of GPU and its driver say of themselves and cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allocmark.system.errors import AllocmarkError, UnknownNameError

_FOLDER = Path(__file__).parent / "profiles"
DEFAULT = "h200"
# What the C side reads as numbers, in its own names; bytes where the name says so.
NUMBERS = (
    *("cuda_version", "compute_major", "compute_minor", "multiprocessors", "memory_bytes"),
    "nvml_reserved_bytes",
    *("driver_init_bytes", "context_bytes", "context_unlisted_bytes", "context_eager_bytes"),
    *("first_kernel_bytes", "first_blas_bytes", "first_blas_eager_bytes", "lag_calls"),
)
# The calls that can take time (`src/times.c`), and how many sizes each table there has room for.
CALLS = ("cudaMalloc", "cudaFree", "cudaMallocAsync", "cuMemCreate", "cuMemRelease")
_MOST_POINTS = 32


@dataclass(frozen=True)
class Profile:
    """The figures of one GPU model; `name` is the real one, without "Emulated"."""

    name: str
    driver_version: str
    numbers: dict[str, int]
    call_times_ns: Mapping[str, Mapping[int, int]]
    """Nanoseconds of a call by the bytes it is about, from `allocmark dev derive-profile`."""


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
    return Profile(
        name=document["name"],
        driver_version=document["driver_version"],
        numbers={key: document[key] for key in NUMBERS},
        call_times_ns=_call_times(path.name, document.get("call_times_ns", {})),
    )


def of_gpu(gpu: str) -> Profile:
    """Return the profile of a GPU, real or emulated, by its name; the default's for another."""
    profiles = {profile.name: profile for profile in map(load, known())}
    return profiles.get(gpu.removeprefix("Emulated ")) or load(DEFAULT)


def _call_times(name: str, document: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[int, int]]:
    """Return the tables of times, sizes ascending; raises `AllocmarkError` for a wrong one."""
    tables = {}
    for call, table in document.items():
        times = {int(size): ns for size, ns in table["ns_by_bytes"].items()}
        if call not in CALLS or not 0 < len(times) <= _MOST_POINTS or min(times.values()) <= 0:
            raise AllocmarkError(
                f"the times of {call} in {name} cannot be used: give 1 to {_MOST_POINTS} sizes "
                f"with the nanoseconds of each, for {', '.join(CALLS)}"
            )
        tables[call] = dict(sorted(times.items()))
    return tables
