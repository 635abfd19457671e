"""torch: the context on each GPU touched, and who puts one on GPU 0 while it works on GPU 1."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from allocmark.allocators.torch_caching import import_torch
from allocmark.experiments.core.recorder import CLOCK, Cell, Recorder
from allocmark.experiments.multi_gpu.device_part import DevicePart, run_in_fork
from allocmark.experiments.multi_gpu.devices import DeviceMetrics, Devices
from allocmark.schema.figure import Axis
from allocmark.schema.metrics import multi_gpu as metrics
from allocmark.system.units import MIB

TOUCHED = DeviceMetrics(metrics.TOUCH_BYTES, metrics.TOUCH_CONTEXT, metrics.TOUCH_LISTED)
STRAY = DeviceMetrics(metrics.STRAY_BYTES, metrics.STRAY_CONTEXT, metrics.STRAY_LISTED)
_WORK = "cuda:1"

Call = Callable[[Any, Path], object]


def _tensor(torch: Any, device: str = "cuda") -> Any:
    return torch.empty(MIB, dtype=torch.uint8, device=device)


def _set_device(torch: Any, checkpoint: Path) -> object:
    torch.cuda.set_device(1)
    return _tensor(torch)


def _within(torch: Any, checkpoint: Path) -> object:
    with torch.cuda.device(1):
        return _tensor(torch)


def _then(call: Callable[[Any], object]) -> Call:
    """Return a program that has a tensor on GPU 1 and never sets the device."""
    return lambda torch, checkpoint: (_tensor(torch, _WORK), call(torch))


def _with_device_set(call: Call) -> Call:
    return lambda torch, checkpoint: (_set_device(torch, checkpoint), call(torch, checkpoint))


def _in_a_thread(call: Callable[[Any], object]) -> Call:
    """Return a program whose device is set, with a thread beside: its own current device is 0."""

    def run(torch: Any, checkpoint: Path) -> object:
        kept: list[object] = [_set_device(torch, checkpoint)]
        thread = threading.Thread(target=lambda: kept.append(call(torch)))
        thread.start()
        thread.join()
        return kept

    return run


def _pinned(torch: Any) -> object:
    return torch.empty(MIB, dtype=torch.uint8).pin_memory()


def _save(checkpoint: Path) -> None:
    torch: Any = import_torch()
    torch.save({"weight": _tensor(torch, "cuda:0")}, checkpoint)


def _everything(torch: Any, checkpoint: Path) -> object:
    kept = [_tensor(torch), _pinned(torch), torch.cuda.Stream()]
    _save(checkpoint)
    for call in (torch.cuda.synchronize, torch.cuda.empty_cache, torch.cuda.mem_get_info):
        call()
    return [*kept, torch.load(checkpoint, weights_only=True)]


PROGRAMS: Mapping[str, Call] = {
    "set_device(1), then device=cuda": _set_device,
    "device=cuda:1": lambda torch, checkpoint: _tensor(torch, _WORK),
    ".to(cuda:1)": lambda torch, checkpoint: torch.zeros(MIB, dtype=torch.uint8).to(_WORK),
    "with torch.cuda.device(1)": _within,
    "device=cuda:1, memory_allocated()": _then(lambda torch: torch.cuda.memory_allocated()),
    "device=cuda:1, synchronize()": _then(lambda torch: torch.cuda.synchronize()),
    "device=cuda:1, empty_cache()": _then(lambda torch: torch.cuda.empty_cache()),
    "device=cuda:1, mem_get_info()": _then(lambda torch: torch.cuda.mem_get_info()),
    "device=cuda:1, Stream()": _then(lambda torch: torch.cuda.Stream()),
    "device=cuda:1, pin_memory()": _then(_pinned),
    "set_device(1), torch.load": _with_device_set(
        lambda torch, checkpoint: torch.load(checkpoint, weights_only=True)
    ),
    "set_device(1), torch.load(map_location=cuda:1)": _with_device_set(
        lambda torch, checkpoint: torch.load(checkpoint, map_location=_WORK, weights_only=True)
    ),
    "set_device(1), thread: device=cuda": _in_a_thread(_tensor),
    "set_device(1), thread: synchronize()": _in_a_thread(lambda torch: torch.cuda.synchronize()),
    "set_device(1), thread: pin_memory()": _in_a_thread(_pinned),
}
"""Programs that work on GPU 1 only, and what they call besides. The checkpoint was saved on GPU 0.

Each is a process of its own; no device, where none is written, means the current one.
"""


class Touched(DevicePart):
    """One GPU touched after the other."""

    name = "touched"

    def prepare(self) -> None:
        import_torch()  # What follows in a fork must find the GPUs untouched.

    def measure(self, recorder: Recorder) -> None:
        program = partial(_touch, self.uuids)
        run_in_fork("GPUs touched", program, _send_touched, self.cells(), recorder)

    def cells(self) -> Iterator[Cell]:
        gpus = len(self.uuids)
        for touched in range(1, gpus + 1):
            axes: dict[str, Axis] = {"touched": touched}
            yield axes, (metrics.TOUCH_SECONDS,)
            yield from TOUCHED.cells(gpus, axes)


class StrayContexts(DevicePart):
    """Every program of `programs`."""

    name = "strays"
    programs: ClassVar[Mapping[str, Call]] = PROGRAMS

    def prepare(self) -> None:
        import_torch()  # What follows in a fork must find the GPUs untouched.

    def measure(self, recorder: Recorder) -> None:
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Path(folder) / "checkpoint.pt"
            save = partial(_save, checkpoint)
            run_in_fork("checkpoint", save, lambda nothing, _: None, [], recorder)
            for name, program in self.programs.items():
                self._measure(name, program, checkpoint, recorder)

    def cells(self) -> Iterator[Cell]:
        for name in self.programs:
            yield from STRAY.cells(len(self.uuids), {"call": name})

    def _measure(self, name: str, program: Call, checkpoint: Path, recorder: Recorder) -> None:
        axes: dict[str, Axis] = {"call": name}

        def run() -> object:
            devices = Devices(self.uuids, self.seen)
            kept = program(import_torch(), checkpoint)
            read = devices.read()
            del kept
            return read

        cells = STRAY.cells(len(self.uuids), axes)
        run_in_fork(name, run, lambda read, to: STRAY.send(read, axes, to), cells, recorder)


class Remedy(StrayContexts):
    """All of it where the second GPU alone is visible, and is therefore called GPU 0."""

    name = "remedy"
    programs: ClassVar[Mapping[str, Call]] = {metrics.ONE_GPU_VISIBLE: _everything}

    @property
    def seen(self) -> Sequence[int]:
        return [1]

    def measure(self, recorder: Recorder) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, program in self.programs.items():
                self._measure(name, program, Path(folder) / "checkpoint.pt", recorder)


def _touch(uuids: Sequence[str]) -> list[dict[str, Any]]:
    """Return seconds and readings after each GPU."""
    torch: Any = import_torch()
    devices, kept, rows = Devices(uuids, range(len(uuids))), [], []
    for gpu in range(len(uuids)):
        begin = time.perf_counter()
        kept.append(_tensor(torch, f"cuda:{gpu}"))
        torch.cuda.synchronize(gpu)
        seconds = time.perf_counter() - begin
        rows.append({"seconds": seconds, "states": devices.read()})
    return rows


def _send_touched(rows: Sequence[Mapping[str, Any]], recorder: Recorder) -> None:
    for touched, row in enumerate(rows, 1):
        axes: dict[str, Axis] = {"touched": touched}
        recorder.reading(metrics.TOUCH_SECONDS, CLOCK, axes, row["seconds"])
        TOUCHED.send(row["states"], axes, recorder)
