"""torch: the context on each GPU touched, and who puts one on GPU 0 while it works on GPU 1."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from allocmark.allocators.torch_caching import import_torch
from allocmark.experiments.core.recorder import CLOCK, Recorder
from allocmark.experiments.multi_gpu.devices import Cards, Cell, send
from allocmark.experiments.multi_gpu.devices import cells as card_cells
from allocmark.experiments.multi_gpu.forks import each_in_a_fork, shown_of
from allocmark.machine.nvml import VISIBLE
from allocmark.schema.figure import Axis, Figure
from allocmark.system.units import MIB

REMEDY = f"{VISIBLE}=1"
"""All of the calls in one process that sees the second GPU only."""
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


STRAYS: Mapping[str, Call] = {
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


def measure_touched(uuids: Sequence[str], recorder: Recorder) -> None:
    """Touch one GPU after the other."""
    each_in_a_fork(
        "GPUs touched",
        lambda: _touch(uuids),
        lambda told: _send_touched(told, recorder),
        touched_cells(len(uuids)),
        recorder,
    )


def measure_strays(uuids: Sequence[str], recorder: Recorder) -> None:
    """Run every program of `STRAYS`."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint.pt"
        each_in_a_fork("checkpoint", lambda: _save(checkpoint), lambda told: None, [], recorder)
        for name, program in STRAYS.items():
            _measure_stray(name, program, checkpoint, uuids, range(len(uuids)), recorder)


def measure_remedy(uuids: Sequence[str], recorder: Recorder) -> None:
    """Run all of it where the second GPU alone is visible, and is therefore called GPU 0."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint.pt"
        _measure_stray(REMEDY, _everything, checkpoint, uuids, [1], recorder)


def _everything(torch: Any, checkpoint: Path) -> object:
    kept = [_tensor(torch), _pinned(torch), torch.cuda.Stream()]
    _save(checkpoint)
    for call in (torch.cuda.synchronize, torch.cuda.empty_cache, torch.cuda.mem_get_info):
        call()
    return [*kept, torch.load(checkpoint, weights_only=True)]


def _measure_stray(
    name: str,
    program: Call,
    checkpoint: Path,
    uuids: Sequence[str],
    seen: Sequence[int],
    recorder: Recorder,
) -> None:
    axes: dict[str, Axis] = {"call": name}

    def run() -> object:
        cards = Cards(uuids, seen)
        kept = program(import_torch(), checkpoint)
        shown = [one.to_json() for one in cards.read()]
        del kept
        return shown

    each_in_a_fork(
        name,
        run,
        lambda told: send("stray", shown_of(told), axes, recorder),
        stray_cells(name, len(uuids)),
        recorder,
    )


def _save(checkpoint: Path) -> None:
    torch: Any = import_torch()
    torch.save({"weight": _tensor(torch, "cuda:0")}, checkpoint)


def _touch(uuids: Sequence[str]) -> list[dict[str, Any]]:
    """Return seconds and readings after each GPU."""
    torch: Any = import_torch()
    cards, kept, told = Cards(uuids, range(len(uuids))), [], []
    for gpu in range(len(uuids)):
        begin = time.perf_counter()
        kept.append(_tensor(torch, f"cuda:{gpu}"))
        torch.cuda.synchronize(gpu)
        seconds = time.perf_counter() - begin
        told.append({"seconds": seconds, "shown": [one.to_json() for one in cards.read()]})
    return told


def _send_touched(told: Sequence[Mapping[str, Any]], recorder: Recorder) -> None:
    for touched, one in enumerate(told, 1):
        axes: dict[str, Axis] = {"touched": touched}
        recorder.figure(Figure("touch_seconds", "s", "time", CLOCK, axes, one["seconds"]))
        send("touch", shown_of(one["shown"]), axes, recorder)


def touched_cells(gpus: int) -> Iterator[Cell]:
    """Yield the cells of `measure_touched`."""
    for touched in range(1, gpus + 1):
        axes: dict[str, Axis] = {"touched": touched}
        yield axes, {"touch_seconds": "s"}
        yield from card_cells("touch", gpus, axes)


def stray_cells(name: str, gpus: int) -> Iterator[Cell]:
    """Yield the cells of one program."""
    yield from card_cells("stray", gpus, {"call": name})
