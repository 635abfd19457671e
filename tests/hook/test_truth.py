"""What a rank that runs alone allocates is what it allocates among the others, to the byte.

As far as can be held against each other without a GPU: gloo between two processes (the emulated
driver runs no NCCL's kernels), and NCCL where a program of one rank sends nothing.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from allocmark.emulator.launcher import real_driver
from tests.support.emulation import needs_torch
from tests.support.rank_programs import PROGRAMS, emulate, environment, record, told

BOTH = """
import os, subprocess, sys
def start(rank):
    known = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    return subprocess.Popen([sys.executable, *sys.argv[1:]], env={**os.environ, **known})
sys.exit(max(process.wait() for process in [start(0), start(1)]))
"""
_PEAKS = ("rank", "device", "allocated", "reserved")


def peaks(found: Mapping[str, Any]) -> list[Any]:
    return [found[name] for name in _PEAKS]


@needs_torch
def test_ddp_of_two_processes_over_gloo(tmp_path: Path, free_port: int) -> None:
    launcher = tmp_path / "both.py"
    launcher.write_text(BOTH)
    program = [str(PROGRAMS / "ddp.py"), "gloo"]
    together = subprocess.run(
        [
            *(sys.executable, "-m", "allocmark", "emulate", "--gpu", "h200", "--devices", "2"),
            *("--", sys.executable, str(launcher), *program),
        ],
        env={**environment(), "WORLD_SIZE": "2", **_address(free_port)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    lines = re.findall(r"{[^}]*}", together.stdout)  # Two processes write into one pipe.
    assert len(lines) == 2, together.stderr[-3000:]
    found = sorted(peaks(json.loads(line)) for line in lines)
    for rank in (0, 1):
        alone = emulate("--world-size", "2", "--rank", str(rank), "--", sys.executable, *program)
        assert peaks(told(alone)) == found[rank]


@needs_torch
def test_fsdp_of_one_rank_over_nccl(free_port: int) -> None:
    program = [sys.executable, str(PROGRAMS / "fsdp.py"), "nccl", "checkpoint"]
    alone = told(emulate("--world-size", "1", "--rank", "0", "--", *program))
    known = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    real = subprocess.run(
        [sys.executable, "-m", "allocmark", "emulate", "--gpu", "h200", "--", *program],
        env={**environment(), **known, **_address(free_port)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert peaks(told(real)) == peaks(alone)


LISTS = """
import json, os, sys, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
own = torch.ones(3 << 20, device="cuda")
all = [torch.empty_like(own)]
dist.all_gather(all, own)
dist.reduce_scatter(own, all)
dist.barrier()
torch.cuda.synchronize()
cuda = torch.cuda
peaks = {"allocated": cuda.max_memory_allocated(), "reserved": cuda.max_memory_reserved()}
print(json.dumps({"rank": dist.get_rank(), "device": cuda.current_device(), **peaks}))
"""


@needs_torch
@pytest.mark.skipif(real_driver() is None, reason="NCCL's kernels need a GPU")
@pytest.mark.parametrize("name", ["ddp.py", "fsdp.py", "tensor_parallel.py", "lists.py"])
def test_one_rank_over_nccl_on_a_gpu(name: str, tmp_path: Path, free_port: int) -> None:
    """Real kernels on both sides: NCCL's own group, and the one that stands for it."""
    lists = tmp_path / "lists.py"
    lists.write_text(LISTS)
    file = lists if name == "lists.py" else PROGRAMS / name
    program = [sys.executable, str(file), "nccl"]
    out = str(tmp_path / "s.pickle")
    alone = told(record("--world-size", "1", "--rank", "0", "--out", out, "--", *program))
    known = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", **_address(free_port)}
    real = subprocess.run(
        program,
        env={**environment(), **known},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert peaks(told(real)) == peaks(alone)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _address(port: int) -> dict[str, str]:
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
