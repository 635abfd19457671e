"""An allocator on one GPU of two takes nothing on the other: no memory, not even a context."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from allocmark.allocators import registry
from tests.support.emulation import missing_for_emulation

pytestmark = pytest.mark.skipif(
    (reason := missing_for_emulation()) is not None, reason=reason or ""
)
CODE = """
import json, sys
from allocmark.allocators import registry
import pynvml
pynvml.nvmlInit()
cards = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2)]
allocator = registry()[sys.argv[1]]
allocator.prepare()
allocator.open(int(sys.argv[2]))
allocator.alloc(1 << 20)
print(json.dumps([len(pynvml.nvmlDeviceGetComputeRunningProcesses(card)) for card in cards]))
"""


@pytest.mark.parametrize(
    ("name", "device"),
    # The second GPU tells a stray context on the first; greedy would take all that it sees.
    [("cuda-malloc", 1), ("torch-native", 1), ("tf-greedy", 0), ("tf-greedy", 1)],
)
def test_the_other_gpu_is_left_alone(name: str, device: int) -> None:
    allocator = registry()[name]
    if allocator.framework != "cuda" and importlib.util.find_spec(allocator.framework) is None:
        pytest.skip(f"{allocator.framework} is not installed")
    emulator = ["-m", "allocmark.emulator", "--memory", "4GiB", "--devices", "2", "--"]
    done = subprocess.run(
        [sys.executable, *emulator, sys.executable, "-c", CODE, name, str(device)],
        env={**os.environ, **allocator.environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    listed = json.loads(done.stdout.splitlines()[-1])
    assert listed == [int(index == device) for index in range(2)]
