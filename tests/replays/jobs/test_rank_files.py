"""Which rank a recording is of, and which need no replay of their own."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from allocmark.replays.jobs import rank_files
from allocmark.system.errors import AllocmarkError
from tests.support.command import allocmark


def snapshot(path: Path, sizes: tuple[int, ...], **job: Any) -> Path:
    """Write what torch would of a program that allocated so much and kept it."""
    entries = [{"action": "segment_alloc", "addr": 1 << 30, "size": 1 << 21, "stream": 0}]
    blocks, at = [], 1 << 30
    for size in sizes:
        entries.append({"action": "alloc", "addr": at, "size": size, "stream": 0})
        blocks.append(
            {"address": at, "size": size, "requested_size": size, "state": "active_allocated"}
        )
        at += size
    rest = (1 << 30) + (1 << 21) - at
    blocks.append({"address": at, "size": rest, "requested_size": 0, "state": "inactive"})
    segment = {
        **{"address": 1 << 30, "total_size": 1 << 21, "stream": 0, "device": 0},
        **{"segment_type": "small", "is_expandable": False, "segment_pool_id": (0, 0)},
        "blocks": blocks,
    }
    content = {"segments": [segment], "device_traces": [entries], "allocator_settings": {}}
    path.write_bytes(pickle.dumps(content | {"allocmark": {"job": job}} if job else content))
    return path


def test_ranks_that_allocate_alike_are_one(tmp_path: Path) -> None:
    for number, sizes in enumerate([(512, 1024), (512, 1024), (2048,), (1024, 512)]):
        snapshot(tmp_path / f"s.rank{number}.pickle", sizes)
    found = rank_files.read([tmp_path], None)
    assert [(one.rank, one.ranks) for one in found] == [(0, (0, 1, 3)), (2, (2,))]


def test_what_a_recording_tells_of_its_rank_counts_more_than_its_name(tmp_path: Path) -> None:
    paths = [
        snapshot(tmp_path / "b.pickle", (512,), rank=37, world_size=512, groups=[]),
        snapshot(tmp_path / "a.rank3.pickle", (1024,)),
        snapshot(tmp_path / "plain.pickle", (512,)),
    ]
    assert [one.rank for one in rank_files.read(paths, None)] == [3, 37, None]


def test_the_file_of_the_job_says_which_ranks_one_stands_for(tmp_path: Path) -> None:
    snapshot(tmp_path / "s.rank0.pickle", (512,))
    job = {"ranks": {"0": {"file": "s.rank0.pickle", "alike": list(range(500))}}}
    (tmp_path / "s.job.json").write_text(json.dumps(job))
    assert rank_files.read([tmp_path], None)[0].ranks == tuple(range(500))
    (tmp_path / "s.job.json").write_text('{"ranks": 3}')
    with pytest.raises(AllocmarkError, match="is damaged"):
        rank_files.read([tmp_path], None)


def test_recordings_of_two_jobs_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (snapshot(tmp_path / f"{name}.rank0.pickle", (512,)) for name in "ab")
    assert allocmark("replay", str(first), str(second)) == 2
    assert "are both of rank 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("replay", "{folder}"), "holds no recording"),
        (("explain",), "name a running process (--pid), the files"),
        (("explain", "--pid", "1", "{folder}"), "name a running process (--pid), the files"),
    ],
)
def test_bad_input_is_a_sentence(
    words: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert allocmark(*(word.format(folder=tmp_path) for word in words)) == 2
    assert sentence in capsys.readouterr().err
