"""Several ranks of one job recorded, each alone: which, and what is left behind."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import pytest

from allocmark.recording import job
from allocmark.recording.job import chosen, listed
from allocmark.system.errors import AllocmarkError
from tests.support.emulation import needs_torch
from tests.support.rank_programs import record, run

PROGRAM = """
import os, sys, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
if rank == 2 and "failing" in sys.argv:
    sys.exit("rank 2 does not like it")
dist.init_process_group("nccl")
if rank == 1 and "sent" in sys.argv:
    told = [None]
    dist.recv_object_list(told, src=0)
    print("told", told)
elif rank == 0:
    dist.send_object_list([{"shape": 7}], dst=1)
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
kept = torch.empty((2 if rank == 0 else 1) << 20, dtype=torch.uint8, device="cuda")
print("said by", rank)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "train.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("all", [0, 1, 2, 3]), ("3,0", [0, 3]), ("1-2, 0", [0, 1, 2]), ("distinct", None)],
)
def test_ranks_are_named_as_numbers_and_ranges(text: str, ranks: list[int] | None) -> None:
    assert chosen(text, 4) == ranks


@pytest.mark.parametrize(("text", "words"), [("0,4", "no rank 4"), ("some", "give all, distinct")])
def test_ranks_that_cannot_be_are_a_sentence(text: str, words: str) -> None:
    with pytest.raises(AllocmarkError, match=words):
        chosen(text, 4)


def test_ranks_are_listed_as_ranges() -> None:
    assert listed([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert listed(range(0, 40, 2)) == "0, 2, 4, 6, 8, 10, 12, 14 and 12 more ranges"


@needs_torch
def test_distinct_ranks_are_kept_with_those_that_they_stand_for(
    program: Path, tmp_path: Path
) -> None:
    out = tmp_path / "job.pickle"
    asked = ["--world-size", "3", "--ranks", "distinct", "--out", str(out)]
    ended = record(*asked, "--", sys.executable, str(program))
    assert (ended.returncode, ended.stdout) == (0, "")
    made = json.loads((tmp_path / "job.job.json").read_text())
    assert {rank: each["alike"] for rank, each in made["ranks"].items()} == {
        "0": [0],
        "1": [1, 2],
    }
    assert sorted(path.name for path in tmp_path.glob("*.pickle")) == [
        "job.rank0.pickle",
        "job.rank1.pickle",
    ]
    assert "said by 1" in (tmp_path / "job.rank1.log").read_text()
    peaks = [
        pickle.loads((tmp_path / f"job.rank{rank}.pickle").read_bytes())["allocmark"]["counters"]
        for rank in (0, 1)
    ]
    assert peaks[0]["0"]["peak_allocated_bytes"] == 2 * peaks[1]["1"]["peak_allocated_bytes"]
    replayed = run("replay", str(tmp_path), "--setting", "torch-native", "--format", "json")
    assert replayed.returncode == 0, replayed.stderr
    answer = json.loads(replayed.stdout)
    assert (answer["ranks_answered_for"], answer["world_size"]) == (3, 3)
    assert [one["ranks"] for one in answer["ranks"]] == [[0], [1, 2]]
    peaks = [one["settings"][0]["peak_reserved_bytes"] for one in answer["ranks"]]
    assert peaks == [20 << 20, 2 << 20], "rank 0 has more than a small segment holds"
    assert answer["settings"][0]["decided_by"] == "rank 0"
    assert any("what NCCL takes" in doubt for one in answer["ranks"] for doubt in one["doubts"])
    again = record(*asked, "--", sys.executable, str(program))
    assert again.returncode == 2
    assert "is there already" in again.stderr


class Ranks(job._Running):
    """Ranks of which each waits for what the one before it sends; rank 3 sends nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(job.Job((), 8, None, (), folder / "s.pickle", 2), folder)
        self.ran: list[int] = []
        self._folder = folder

    def _run(self, rank: int) -> str | job._Waits:
        self.ran.append(rank)
        path = self._folder / f"{rank - 1}.{rank}"
        if rank and not path.exists():
            return job._Waits(rank - 1, path)
        if rank != 3:
            (self._folder / f"{rank}.{rank + 1}").touch()
        return f"digest {rank}"


def test_those_that_a_rank_waits_for_are_run_first(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path)
    assert ranks.run([0, 3]) == {0: "digest 0", 3: "digest 3"}
    assert ranks.ran[-3:] == [1, 2, 3]
    assert sorted(ranks.ran) == [0, 1, 2, 2, 3, 3]
    assert not ranks.missing
    before = list(ranks.ran)
    assert ranks.run([1, 3]) == {1: "digest 1", 3: "digest 3"}
    assert ranks.ran == before, "no rank is run twice"


def test_a_rank_that_nobody_sends_anything_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = Ranks(tmp_path)
    assert ranks.run([4]) == {4: "missing 4"}
    assert ranks.missing == {4}
    assert "it waits for what rank 3 does not send" in capsys.readouterr().err


@needs_torch
def test_a_rank_finds_the_objects_of_the_one_that_was_run_for_it(
    program: Path, tmp_path: Path
) -> None:
    out = tmp_path / "job.pickle"
    asked = ["--world-size", "2", "--ranks", "1", "--out", str(out)]
    ended = record(*asked, "--", sys.executable, str(program), "sent")
    assert ended.returncode == 0, ended.stderr
    assert "told [{'shape': 7}]" in (tmp_path / "job.rank1.log").read_text()
    assert [path.name for path in tmp_path.glob("*.pickle")] == ["job.rank1.pickle"]


@needs_torch
def test_a_rank_that_leaves_no_snapshot_is_said_and_the_others_are_kept(
    program: Path, tmp_path: Path
) -> None:
    out = tmp_path / "job.pickle"
    asked = ["--world-size", "4", "--ranks", "1,2", "--out", str(out)]
    ended = record(*asked, "--", sys.executable, str(program), "failing")
    assert ended.returncode == 3
    assert "rank 2 left no snapshot (exit code 1)" in ended.stderr
    assert "rank 2 does not like it" in ended.stderr
    made = json.loads((tmp_path / "job.job.json").read_text())
    assert (list(made["ranks"]), made["missing"]) == (["1"], [2])
    assert [path.name for path in tmp_path.glob("*.pickle")] == ["job.rank1.pickle"]
