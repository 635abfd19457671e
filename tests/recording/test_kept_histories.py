"""One program whose history is kept as people keep it: nothing is concluded from too little."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocmark.recording.importers import reader
from allocmark.replays.explanation import explain
from allocmark.replays.recorded_run import Outcome
from allocmark.replays.summary import recommended, summary
from allocmark.system.units import MIB
from tests.support.recorded_programs import needs_torch, replayed, run

pytestmark = needs_torch

WORK = """
keep = torch.cuda.memory._record_memory_history
KEEP
def work():
    weights = [new(30) for _ in range(10)]
    for n in range(1, 40):
        if n == 20:
            LATE
        one, two = new(n), new(3)
        del one, two
    del weights[::2]
    return weights
kept = work()
torch.cuda.memory._dump_snapshot(sys.argv[1])
print(torch.cuda.max_memory_reserved())
"""
KEPT = {
    "all": "keep()",
    "python": 'keep(stacks="python")',
    "no context": "keep(context=None)",
    "without requests": 'keep(skip_actions=["free_requested"])',
    "without completions": 'keep(skip_actions=["free_completed"])',
}
NOT_KEPT = {"legacy": "keep(True)", "state": 'keep("state")', "never": ""}
IN_PART = {"ring": "keep(max_entries=40)"}


def kept(tmp_path: Path, how: str, late: str = "pass") -> tuple[Path, int]:
    """Return the snapshot of the program, and what it had reserved at most."""
    file = tmp_path / "kept.pickle"
    code = WORK.replace("KEEP", how).replace("LATE", late)
    ended, _none = run(tmp_path, code, "8GiB", str(file))
    assert ended.returncode == 0, ended.stderr
    return file, int(ended.stdout)


@pytest.mark.parametrize("how", KEPT.values(), ids=KEPT.keys())
def test_a_whole_history_gives_the_run_to_the_byte(tmp_path: Path, how: str) -> None:
    file, peak = kept(tmp_path, how)
    found = replayed(file, "torch-native")
    own = found.settings[0]
    assert own.figure("peak_reserved_bytes") == peak
    assert f"peak reserved equal ({peak})" in found.agreement.text
    assert "at least" not in summary(found)
    # No stream but one: nothing waited, whatever was left out.
    assert not any("waited for another stream:" in doubt for doubt in found.doubts)
    told = any("whether a free waited" in doubt for doubt in found.doubts)
    assert told is ("free_requested" in how)


@pytest.mark.parametrize("how", NOT_KEPT.values(), ids=NOT_KEPT.keys())
def test_without_a_history_the_answer_is_a_floor_and_the_recorded_map_is_explained(
    tmp_path: Path, how: str
) -> None:
    file, peak = kept(tmp_path, how)
    found = replayed(file, "torch-native")
    assert not found.recording.has_history and found.run.outcome is Outcome.NO_HISTORY
    assert "with at least" in summary(found) and "alive at its end" in summary(found)
    assert found.agreement.text.startswith("the recording has no history")
    assert recommended(found) is None
    own = found.settings[0]
    assert (own.figure("peak_reserved_bytes") or 0) == 150 * MIB < peak
    explained = explain(found)
    assert explained is not None and explained.under == "the recorded run"
    assert explained.breakdown.live_bytes == 150 * MIB
    assert explained.breakdown.reserved_bytes > 150 * MIB
    assert any("no history" in doubt for doubt in found.doubts)


@pytest.mark.parametrize(
    ("how", "late", "why"),
    [
        ("keep(max_entries=40)", "pass", "ring"),
        ("keep(max_entries=2)", "pass", "ring"),
        ("", "keep()", "started late"),
    ],
)
def test_a_history_that_begins_late_is_a_floor(
    tmp_path: Path, how: str, late: str, why: str
) -> None:
    file, _peak = kept(tmp_path, how, late)
    found = replayed(file, "torch-native")
    assert found.recording.has_history and found.recording.begins_late
    assert found.recording.is_floor
    assert "%" not in found.agreement.text
    assert summary(found).startswith("at least, as the history begins late: ")
    assert any("alive before the history begins" in d and why in d for d in found.doubts)


def test_counters_tell_that_the_peak_lies_inside_a_late_history(tmp_path: Path) -> None:
    peak_last = "kept = [new(30) for _ in range(8)]\nfor _ in range(30): new(3)\nnew(2000)"
    peak_first = "new(2000)\nkept = [new(30) for _ in range(8)]\nfor _ in range(30): new(3)"
    for code, late in ((peak_last, False), (peak_first, True)):
        _ended, file = run(tmp_path, code, "8GiB", record=["--max-entries", "40"])
        found = reader.read(file)
        assert found.begins_late and found.is_floor is late
        assert any("its ring of 40 entries was full" in doubt for doubt in found.doubts)


CHANGED = {
    "switched on": ("", "expandable_segments:True"),
    "switched off": ("expandable_segments:True", "expandable_segments:False"),
    "split changed": ("max_split_size_mb:64", "max_split_size_mb:200"),
}


@pytest.mark.parametrize(("before", "after"), CHANGED.values(), ids=CHANGED.keys())
def test_a_setting_that_was_changed_while_the_program_ran_is_a_doubt(
    tmp_path: Path, before: str, after: str
) -> None:
    code = f"""
a = new(40)
torch.cuda.memory._set_allocator_settings({after!r})
b = new(50)
"""
    _ended, file = run(tmp_path, code, "8GiB", record=[], conf=before)
    found = reader.read(file)
    doubts = [doubt for doubt in found.doubts if "changed while the program ran" in doubt]
    assert doubts and found.causes[0] == doubts[0]


@pytest.mark.parametrize("conf", ["", "expandable_segments:True", "max_split_size_mb:64"])
def test_a_setting_that_was_not_changed_is_no_doubt(tmp_path: Path, conf: str) -> None:
    code = """
a = new(40)
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    b = new(50)
"""
    _ended, file = run(tmp_path, code, "8GiB", record=[], conf=conf)
    assert not any("changed" in doubt for doubt in reader.read(file).doubts)
