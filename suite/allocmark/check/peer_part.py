"""Peer access among all GPUs that CUDA sees: every pair that has it copies a pattern both ways.

``python -m allocmark.check.peer_part PARENT`` prints its readings (`child.run`).
"""

from __future__ import annotations

import sys
from itertools import permutations
from typing import Any

from allocmark.check import child
from allocmark.cuda import driver
from allocmark.machine.emulated import is_emulated
from allocmark.system.units import MIB

_PATTERN = 0x5A3CF096
_WORDS = MIB // 4


def main(say: child.Stage) -> dict[str, Any]:
    """Return the pairs without peer access, and those whose copy arrived wrong."""
    say("cuInit")
    driver.init()
    devices = range(driver.device_count())
    contexts, blocks = [], []
    for device in devices:
        say(f"a context and {MIB} bytes on GPU {device}")
        contexts.append(driver.create_context(device))
        blocks.append(driver.alloc(MIB))
    without, wrong = [], []
    for source, target in permutations(devices, 2):
        if not driver.can_access_peer(source, target):
            without.append([source, target])
            continue
        say(f"peer access of GPU {source} to GPU {target}")
        driver.set_context(contexts[source])
        driver.enable_peer_access(contexts[target])
        word = (_PATTERN + source) & 0xFFFFFFFF
        driver.fill(blocks[source], word, _WORDS)
        driver.synchronize()
        ends = (blocks[target], contexts[target]), (blocks[source], contexts[source])
        driver.copy_peer(*ends, MIB)
        driver.synchronize()
        driver.set_context(contexts[target])
        expected = word.to_bytes(4, sys.byteorder) * _WORDS
        if driver.read(blocks[target], MIB) != expected and not is_emulated():
            wrong.append([source, target])
    return {"without": without, "wrong": wrong}


if __name__ == "__main__":
    child.run(main, int(sys.argv[1]))
