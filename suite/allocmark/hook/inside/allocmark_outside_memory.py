"""Inside the recorded program: the most that it ever held of a GPU outside torch's allocator.

At its end a program may have given libraries' memory back (NCCL's buffers go with the process
group), so what lies outside is looked at while it runs. Standard library and nvidia-ml-py only.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any

_EVERY_S = 0.1


class OutsideMemory(threading.Thread):
    """Looks ten times a second; `peak_bytes` has the most of each device, as far as NVML tells."""

    def __init__(self, torch: Any) -> None:
        super().__init__(name="allocmark-outside-memory", daemon=True)
        self._cuda = torch.cuda
        self._ended = threading.Event()
        self.peak_bytes: dict[int, int] = {}

    def run(self) -> None:
        """Look until `stop`, or until NVML does not tell."""
        with contextlib.suppress(Exception):
            while not self._ended.wait(_EVERY_S):
                self.look()

    def stop(self) -> None:
        """End, after a last look."""
        self._ended.set()
        with contextlib.suppress(Exception):
            self.look()

    def look(self) -> None:
        """Compare what the process holds with what its allocator has reserved."""
        for device in range(self._cuda.device_count()):
            before = self._cuda.memory_reserved(device)
            held = process_bytes(self._cuda, device) if before else None
            # In between the allocator may have asked the driver for more, or given some back.
            if held is not None and self._cuda.memory_reserved(device) == before:
                self.peak_bytes[device] = max(held - before, self.peak_bytes.get(device, 0))


def process_bytes(cuda: Any, device: int) -> int | None:
    """Return what NVML says this process holds of a device, None where it does not tell."""
    with contextlib.suppress(Exception):  # No module or library, or a container hides process ids.
        import pynvml

        pynvml.nvmlInit()
        uuid = f"GPU-{cuda.get_device_properties(device).uuid}"
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
            if process.pid == os.getpid():
                return int(process.usedGpuMemory)
    return None
