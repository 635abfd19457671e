"""An unmodified program as one rank of a job: what it finds, and what is said of what it lacks."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from allocmark.hook import rank
from allocmark.system.errors import AllocmarkError
from tests.support.emulation import needs_torch
from tests.support.rank_programs import PROGRAMS, emulate, record, told


@pytest.mark.parametrize(
    ("asked", "local", "devices_per_machine"),
    [((512, 37), 5, 8), ((12, 7), 1, 6), ((3, 2), 2, 3), ((512, 37, 4), 1, 4), ((1, 0), 0, 1)],
)
def test_a_rank_has_the_variables_that_torchrun_sets(
    asked: Sequence[int], local: int, devices_per_machine: int
) -> None:
    variables = rank.of(*asked).variables()
    names = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    expected = [*asked[:2], local, devices_per_machine, asked[1] // devices_per_machine]
    assert [int(variables[name]) for name in names] == expected
    assert variables["MASTER_ADDR"]
    assert variables["MASTER_PORT"].isdecimal()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ((8, 8), "no rank 8: give one from 0 to 7"),
        ((8, -1), "no rank -1"),
        ((0, 0), "--world-size is 1 or more"),
        ((8, 1, 3), "8 ranks do not fill machines of 3"),
        ((8, 1, 0), "do not fill machines of 0"),
        ((8, 5, 8, 2), "number 5 on its machine, and 2 devices are here"),
    ],
)
def test_a_rank_that_cannot_be_is_a_sentence(asked: Sequence[int], words: str) -> None:
    with pytest.raises(AllocmarkError, match=words):
        rank.of(*asked)


def test_where_gpus_are_a_machine_has_no_more_ranks_than_those() -> None:
    found = rank.of(512, 37, devices=2)
    assert (found.local_world_size, found.local_rank) == (2, 1)


@pytest.mark.parametrize(
    "command",
    [
        ("torchrun", "--nproc-per-node", "8", "train.py"),
        ("/usr/bin/torchrun", "train.py"),
        ("python", "-m", "torch.distributed.run", "train.py"),
        ("accelerate", "launch", "train.py"),
        ("srun", "python", "train.py"),
    ],
)
def test_a_launcher_is_not_run_as_a_rank(command: Sequence[str]) -> None:
    with pytest.raises(AllocmarkError, match="starts the ranks itself: give the program alone"):
        rank.check_command(command)


def test_other_commands_are() -> None:
    rank.check_command(["python", "-m", "training", "launch"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--rank", "3"), "need --world-size"),
        (("--world-size", "8"), "needs --rank"),
        (("--world-size", "8", "--rank", "9"), "no rank 9"),
    ],
)
def test_half_of_a_wish_is_bad_input(words: Sequence[str], sentence: str) -> None:
    for run in (emulate, record):
        ended = run(*words, "--", "true")
        assert (ended.returncode, ended.stdout) == (2, "")
        assert sentence in ended.stderr
        assert len(ended.stderr.splitlines()) == 1


@needs_torch
def test_ddp_buckets_are_those_of_the_real_reducer() -> None:
    """They are sent through the device and back after the first step, and must arrive whole."""
    words = [sys.executable, str(PROGRAMS / "ddp.py")]
    ended = emulate("--world-size", "16", "--rank", "11", "--", *words)
    found = told(ended)
    assert (found["rank"], found["world_size"], found["device"]) == (11, 16, 3)
    assert (found["backend"], found["buckets"]) == ("nccl", 10)
    assert "rank 11 of 16 ran alone" in ended.stderr
    assert "No collective brought values" in ended.stderr


@needs_torch
def test_a_rank_is_recorded_with_its_job(tmp_path: Path) -> None:
    out = tmp_path / "s.pickle"
    words = [sys.executable, str(PROGRAMS / "fsdp.py"), "nccl", "mesh"]
    ended = record("--world-size", "64", "--rank", "9", "--out", str(out), "--", *words)
    found = told(ended)
    snapshot = pickle.loads((tmp_path / "s.rank9.pickle").read_bytes())["allocmark"]
    job = snapshot["job"]
    assert (job["rank"], job["world_size"], job["local_rank"]) == (9, 64, 1)
    assert job["groups"] == ["nccl 9 64 0:64:1", "nccl 1 8 1:58:8", "nccl 1 8 8:16:1"]
    assert job["missing"] == {}
    assert snapshot["counters"]["1"]["peak_allocated_bytes"] == found["allocated"]
    assert snapshot["counters"]["1"]["peak_reserved_bytes"] == found["reserved"]


MISSING = """
import os, torch, torch.distributed as dist
dist.init_process_group()
own = [None] * 4
dist.all_gather_object(own, {"rank": dist.get_rank()})
sent = ["mine"]
dist.broadcast_object_list(sent, src=0)
mine = ["kept"]
dist.broadcast_object_list(mine, src=dist.get_rank())
seed = torch.tensor([7])
dist.broadcast(seed, src=2)
print(own[3]["rank"], sent, mine, seed.item(), dist.get_backend())
"""


@needs_torch
def test_values_that_no_rank_brings_are_said_by_their_line(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(MISSING)
    ended = emulate("--world-size", "4", "--rank", "1", "--", sys.executable, str(program))
    assert ended.stdout.splitlines()[-1].startswith("1 ['mine'] ['kept'] 7 ")
    lacking = [line for line in ended.stderr.splitlines() if "no other rank answered" in line]
    assert sorted(line.split("answered ")[1].split(" (")[0] for line in lacking) == [
        f"all_gather_object at {program}:5",
        f"broadcast at {program}:11",
        f"broadcast_object_list at {program}:7",
    ]


OWN = {
    "spawn": """
import torch.multiprocessing as mp
def work(rank): print("worked")
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
""",
    "explicit": """
import torch.distributed as dist
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29511", rank=0, world_size=2)
""",
}


@needs_torch
@pytest.mark.parametrize(
    ("kind", "words"),
    [("spawn", "starts its own workers"), ("explicit", "makes itself rank 0 of 2")],
)
def test_a_program_with_workers_of_its_own_ends_with_a_sentence(
    kind: str, words: str, tmp_path: Path
) -> None:
    program = tmp_path / "train.py"
    program.write_text(OWN[kind])
    ended = emulate("--world-size", "4", "--rank", "1", "--", sys.executable, str(program))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


FLATTENED = """
import json, os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
plain = dist.new_group(backend="gloo")
own = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
all = [torch.empty_like(own) for _ in range(dist.get_world_size())]
def peak(collective, *tensors, group):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    collective(*tensors, group=group)
    return torch.cuda.max_memory_allocated() - before
print(json.dumps([
    [peak(dist.all_gather, all, own, group=group), peak(dist.reduce_scatter, own, all, group=group)]
    for group in (None, plain)
]))
"""


@needs_torch
def test_lists_are_flattened_as_by_the_group_of_nccl(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(FLATTENED)
    ended = emulate("--world-size", "8", "--rank", "1", "--", sys.executable, str(program))
    flat = 8 << 20
    assert json.loads(ended.stdout.splitlines()[-1]) == [[flat, flat], [0, 0]]


STRANGE = """
class _Distributed:
    @staticmethod
    def is_available(): return True
distributed = _Distributed()
__version__ = "9.0"
"""


def test_a_torch_that_cannot_be_one_rank_is_a_sentence(tmp_path: Path) -> None:
    """Without it the program would wait for a store that nobody keeps."""
    (tmp_path / "torch.py").write_text(STRANGE)
    known = rank.of(4, 1).variables()
    ended = subprocess.run(
        [sys.executable, "-c", "import torch; print('ran')"],
        env={**os.environ, **known, "PYTHONPATH": f"{known['PYTHONPATH']}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "torch 9.0 cannot be run as one rank of a job" in ended.stderr
