"""Changes planted on the emulated driver, and what the comparison says of them.

``python tests/support/planted_changes.py FOLDER`` measures each side, several runs where times are
compared, and prints the verdicts: a setting changed, one more driver call for each miss, and
cudaMalloc 10 % slower in the profile. The tests run the first two of a small allocator.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from allocmark.compare.comparing import compare
from allocmark.compare.model import Comparison
from allocmark.emulator.launcher import emulation
from allocmark.schema import documents
from allocmark.system.units import GIB

CONFIG = "ALLOCMARK_EMULATOR_CONFIG"
RUNS = 3
"""Runs a side where times are compared."""
_BUCKETS = '''
"""Sizes rounded up to a multiple, freed blocks kept by size; one more driver call where asked."""

from collections import defaultdict

from allocmark.allocators.base import Allocator, Capability, Stats
from allocmark.cuda import runtime

GRAIN, MORE_CALLS = {grain}, {more}


class Buckets(Allocator):
    framework = "cuda"
    capabilities = frozenset(
        {{Capability.CACHE, Capability.TRIM, Capability.RESTART, Capability.EXACT}}
    )

    def open(self, device):
        runtime.set_device(device)
        self._free, self._size = defaultdict(list), {{}}
        self._reserved = self._peak = self._allocs = 0

    def alloc(self, size_bytes, stream=0):
        size = -(-size_bytes // GRAIN) * GRAIN
        if self._free[size]:
            return self._free[size].pop()
        for _ in range(MORE_CALLS):
            runtime.free(runtime.malloc(512))
            self._allocs += 1
        block = runtime.malloc(size)
        self._size[block] = size
        self._allocs += 1
        self._reserved += size
        self._peak = max(self._peak, self._reserved)
        return block

    def free(self, block, stream=0):
        self._free[self._size[block]].append(block)

    def trim(self):
        for blocks in self._free.values():
            while blocks:
                block = blocks.pop()
                runtime.free(block)
                self._reserved -= self._size.pop(block)

    def restart(self):
        self.trim()
        self._allocs = self._peak = 0

    def reset_peaks(self):
        self._peak = self._reserved

    def synchronize(self):
        runtime.synchronize()

    def stats(self):
        return Stats(
            reserved_bytes=self._reserved,
            peak_reserved_bytes=self._peak,
            segments=len(self._size),
            driver_allocs=self._allocs,
        )


ALLOCATORS = (Buckets("planted"),)
'''
_TORCH = '''
"""PyTorch's allocator under a setting, by the same name whichever it is."""

from allocmark.allocators.torch_caching import TorchCaching

ALLOCATORS = (TorchCaching("planted", "{conf}"),)
'''


def buckets(folder: Path, grain: int = 512, more: int = 0) -> Path:
    """Write the file of a small caching allocator; `more` driver calls for each miss."""
    return _written(folder / f"buckets-{grain}-{more}.py", _BUCKETS.format(grain=grain, more=more))


def torch(folder: Path, conf: str = "") -> Path:
    """Write the file of torch's allocator under a setting."""
    name = re.sub(r"\W+", "-", conf) or "plain"
    return _written(folder / f"torch-{name}.py", _TORCH.format(conf=conf))


def slower(config: str, call: str, factor: float) -> str:
    """Return the emulated driver's settings with one call's times multiplied."""
    lines = []
    for line in config.splitlines():
        name, _, value = line.partition("=")
        if name == f"time_{call}":
            pairs = (pair.split(":") for pair in value.split())
            value = " ".join(f"{size}:{round(int(ns) * factor)}" for size, ns in pairs)
        lines.append(f"{name}={value}")
    return "\n".join(lines)


def measure(
    results: Path,
    experiment: str,
    subject: str = "planted",
    file: Path | None = None,
    slow: tuple[str, float] | None = None,
    extra: Mapping[str, str] | None = None,
) -> Path:
    """Measure one document on the emulated driver; `slow`: a call, and how many times as slow."""
    command = [sys.executable, "-m", "allocmark", "run", "--profile", "quick"]
    command += ["--experiment", experiment, "--subject", subject, "--results", str(results)]
    command += ["--allocator-file", str(file)] if file else []
    results.mkdir(parents=True, exist_ok=True)
    with emulation("h200", 24 * GIB, times=slow is not None) as variables:
        environment = {**os.environ, **variables, **(extra or {})}
        if slow:
            environment[CONFIG] = slower(environment[CONFIG], *slow)
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return results


def setting_changed(folder: Path) -> Comparison:
    """Torch's allocator as it comes, against rounding to powers of two."""
    return _fragmentation(folder, torch(folder), torch(folder, "roundup_power2_divisions:4"))


def one_more_call(folder: Path) -> Comparison:
    """A small allocator, against itself with one more driver call for each miss."""
    return _fragmentation(folder, buckets(folder), buckets(folder, more=1))


def slower_malloc(folder: Path, factor: float = 1.10) -> Comparison:
    """cudaMalloc at the profile's times, against `factor` times these: `RUNS` runs a side."""
    for run in range(RUNS):
        for side, times in (("a", 1.0), ("b", factor)):
            results = folder / side / f"run{run}"
            measure(results, "latency", "cuda-malloc", slow=("cudaMalloc", times))
            for path in results.rglob("*.json.gz"):  # An emulated GPU's times are not judged.
                documents.write(path, replace(documents.read(path), emulated=False))
    return compare(str(folder / "a"), str(folder / "b"))


def _fragmentation(folder: Path, a: Path, b: Path) -> Comparison:
    sides = [measure(folder / name, "fragmentation", file=f) for name, f in (("a", a), ("b", b))]
    return compare(str(sides[0]), str(sides[1]))


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def main(folder: Path) -> None:
    """Plant each change below `folder` and print what is said of it."""
    for name, plant in (
        ("one more call", one_more_call),
        ("setting changed", setting_changed),
        ("slower cudaMalloc", slower_malloc),
    ):
        found = plant(folder / name.replace(" ", "-"))
        print(f"{name}: {found.counted()}", flush=True)
        for row in found.of("worse", "better", "changed")[:12]:
            ratio = "-" if row.ratio is None else f"{row.ratio:.3f}"
            print(f"  {row.verdict:7} {ratio}  {row.figure_id}  ({row.note})")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
