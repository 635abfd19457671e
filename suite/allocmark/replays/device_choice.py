"""Where the replays run: on this machine's GPU, or on the emulated driver where there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from allocmark.allocators.base import Allocator
from allocmark.allocators.tensorflow_gpu import LIMIT_BYTES
from allocmark.emulator.launcher import emulation, real_driver
from allocmark.system.units import GIB

_EMULATED_BYTES = 1024 * GIB
"""As much as can be emulated: what fits is found by a ballast."""
_BFC_LEAST_BYTES = LIMIT_BYTES + 2 * GIB
"""Room for the one region of ``tf-limit``, its context and that of a ballast."""
_ROOM = 4


def is_emulated(requested: bool) -> bool:
    """Whether the replays run on the emulated driver: where it was asked for, or no GPU is here."""
    return requested or real_driver() is None


@contextlib.contextmanager
def variables(emulated: bool, allocator: Allocator, live_bytes: int) -> Iterator[Mapping[str, str]]:
    """Give the variables of one child's environment, and with them a device of its own."""
    if not emulated:
        yield {}
        return
    memory = _EMULATED_BYTES
    if allocator.framework == "tensorflow" and not allocator.driver_pool:
        # Its own allocator keeps eight bytes on the host for each 256 of the device, used or not.
        memory = min(memory, max(_BFC_LEAST_BYTES, _ROOM * live_bytes))
    with emulation("h200", memory) as found:
        yield found
