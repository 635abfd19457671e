"""All processes on all GPUs of the machine, each taken apart as far as it tells: for metrics.

Those of other users, and those that are not watched, have what NVML lists of them alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from allocmark.explain import counter_file, devices, measured_facts, process
from allocmark.explain.account import Account, take_apart
from allocmark.explain.counter_file import Counters
from allocmark.explain.devices import Gpu
from allocmark.explain.watch import place
from allocmark.machine.emulated import is_emulated
from allocmark.store.panel import Panel
from allocmark.system.errors import AllocmarkError

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ProcessAccount:
    """A process on one GPU; `program` is its name without arguments, which may hold secrets.

    `age_s` is the age of its own counters, None where it has none.
    """

    pid: int
    program: str
    account: Account
    age_s: float | None


class Machine:
    """Reads all processes again and again; the results of its GPUs are read once."""

    def __init__(self, results: Sequence[Path], must_be: bool) -> None:
        self._measured: list[Panel] = [
            panel for folder in results for panel in measured_facts.load(folder, must_be)
        ]
        self._emulated = is_emulated()

    def read(self) -> list[ProcessAccount]:
        """Return every process on every GPU. Raises `NoGpuError` where there is none."""
        gpus = devices.read()
        watched = dict(_watched(gpus))
        found = []
        for gpu in gpus:
            facts = measured_facts.find(self._measured, gpu.name, gpu.driver, self._emulated)
            own = [pid for pid, (_, counters) in watched.items() if gpu.uuid in counters]
            for pid in sorted({*(gpu.processes or {}), *own}):
                age_s, of_gpu = watched.get(pid, (None, {}))
                counters = of_gpu.get(gpu.uuid, [])
                account = take_apart(gpu, pid, counters, facts)
                age = age_s if counters else None
                found.append(ProcessAccount(pid, _program(pid), account, age))
        return found


def _watched(gpus: Sequence[Gpu]) -> Iterator[tuple[int, tuple[float, dict[str, list[Counters]]]]]:
    """Yield the processes that tell of themselves: age of the counters, and these by GPU."""
    for pid in _told():
        # One that has ended, or whose file cannot be believed: the others are told all the same.
        with suppress(AllocmarkError):
            report = counter_file.read(process.find(pid))
            if report is None:
                continue
            listed = [gpu.uuid for gpu in gpus if pid in (gpu.processes or {})]
            of_gpu: dict[str, list[Counters]] = {}
            for uuid, counted in devices.placed(report, gpus):
                certain = uuid or (listed[0] if len(listed) == 1 else None)
                if certain is not None:
                    of_gpu.setdefault(certain, []).append(counted)
            yield pid, (report.age_s, of_gpu)


def _told() -> set[int]:
    """Return the processes that have left a file of counters."""
    found: set[int] = set()
    for folder in place.folders():
        with suppress(OSError):
            place.check_folder(folder)
            names = [path.stem for path in Path(folder).glob(f"*{place.SUFFIX}")]
            found |= {int(name) for name in names if name.isdecimal()}
    return found


def _program(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _UNKNOWN  # In another container, or ended.
    return process.printable(text.strip(), 64)
