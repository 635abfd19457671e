"""torch's memory fraction in a replay: as the bytes that it allows on the GPU that is replayed.

A fraction is of a GPU's memory, and the device that replays has another size (the emulated one
1 TiB). So what it allows is worked out and set as the fraction of this device that is as much.
"""

from __future__ import annotations

import math

from allocmark.allocators.base import Allocator, Capability
from allocmark.allocators.torch_caching import import_torch
from allocmark.experiments.shared.ballast import STEP_BYTES


class MemoryFraction:
    """What an opened allocator may reserve.

    One that torch's fraction does not limit (torch without its cache, other frameworks) has no more
    than that of the device.

    `allowed_bytes` is the process's own limit, `fraction` the one of the setting that is replayed,
    of a GPU with the capacity and `outside_bytes` beside it.
    """

    def __init__(
        self,
        allocator: Allocator,
        allowed_bytes: int | None,
        fraction: float | None,
        outside_bytes: int,
    ) -> None:
        heeds = allocator.framework == "torch" and Capability.CACHE in allocator.capabilities
        self._heeds = heeds
        self._limits = heeds and (allowed_bytes is not None or fraction is not None)
        self.allowed_bytes = allowed_bytes
        """The limit within the capacity that is answered for, None without one."""
        self._fraction, self._outside_bytes = fraction, outside_bytes

    def within(self, capacity_bytes: int | None) -> None:
        """Let the limit hold that belongs to the capacity that is answered for."""
        if self._fraction is not None and capacity_bytes is not None:
            self.allowed_bytes = self._allowed(capacity_bytes)
        self.set(self.allowed_bytes)

    def device_bytes(self, capacity_bytes: int) -> int:
        """Return what is to be left on the device, so that no more than allowed is had."""
        if self._heeds or self.allowed_bytes is None:
            return capacity_bytes
        return min(capacity_bytes, self.allowed_bytes)

    def search(self, capacity_bytes: int) -> None:
        """Let the setting's own limit hold in that capacity; the process's own is lifted."""
        self.set(None if self._fraction is None else self._allowed(capacity_bytes))

    def lift(self) -> None:
        """Allow all the memory there is."""
        self.set(None)

    def set(self, allowed_bytes: int | None) -> None:
        """Allow so many bytes, None for all there are."""
        # One that was never limited stays so: torch distinguishes that from a fraction of 1.
        if not self._heeds or (allowed_bytes is None and not self._limits):
            return
        self._limits = True
        cuda = import_torch().cuda
        total = cuda.get_device_properties(cuda.current_device()).total_memory
        # torch cuts off what is behind the point.
        share = 1.0 if allowed_bytes is None else min(1.0, (allowed_bytes + 0.5) / total)
        cuda.set_per_process_memory_fraction(share)

    def least_capacity(self, reserved_bytes: int) -> int:
        """Return the least capacity, in whole steps, in which so much may be reserved."""
        if not self._fraction:
            return reserved_bytes
        whole = math.ceil(reserved_bytes / self._fraction) - self._outside_bytes
        return max(reserved_bytes, -(-whole // STEP_BYTES) * STEP_BYTES)

    def _allowed(self, capacity_bytes: int) -> int:
        return int((self._fraction or 0.0) * (capacity_bytes + self._outside_bytes))
