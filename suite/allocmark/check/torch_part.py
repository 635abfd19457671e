"""torch's allocator on one GPU: blocks of several sizes, their counters, and the release.

``python -m allocmark.check.torch_part DEVICE PARENT`` prints its readings (`child.run`).
"""

from __future__ import annotations

import sys
from typing import Any

from allocmark.check import child
from allocmark.system.units import GIB, KIB, MIB

_SIZES = (512, 64 * KIB, MIB, 12 * MIB, 256 * MIB, GIB)
IMPORT = "the import of torch"
"""The stage that may take long on a cold disk, and says nothing of the GPU."""


def main(device: int, say: child.Stage) -> dict[str, Any]:
    """Return what was asked for and what the counters say, in bytes."""
    say(IMPORT)
    import torch

    say("torch's start on the GPU")
    torch.cuda.init()
    torch.cuda.set_device(device)
    free_bytes, _ = torch.cuda.mem_get_info(device)
    wanted = [size for size in _SIZES if size < free_bytes // 4]
    blocks = []
    for size in wanted:
        say(f"torch.empty of {size} bytes")
        blocks.append(torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}"))
    torch.cuda.synchronize(device)
    allocated, reserved = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
    blocks.clear()
    say("torch.cuda.empty_cache")
    torch.cuda.empty_cache()
    return {
        "asked_bytes": sum(wanted),
        "allocated_bytes": allocated,
        "reserved_bytes": reserved,
        "left_allocated_bytes": torch.cuda.memory_allocated(device),
        "left_reserved_bytes": torch.cuda.memory_reserved(device),
        "retries": torch.cuda.memory_stats(device)["num_alloc_retries"],
        "version": torch.__version__,
    }


if __name__ == "__main__":
    child.run(lambda say: main(int(sys.argv[1]), say), int(sys.argv[2]))
