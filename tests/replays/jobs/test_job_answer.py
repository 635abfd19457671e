"""One answer for several ranks: who decides, what is recommended, and what it is said for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from allocmark.recording.importers.recording import Recording
from allocmark.replays import rank_notes
from allocmark.replays.answer import SettingAnswer
from allocmark.replays.jobs import job_answer, job_page, job_table
from allocmark.replays.jobs.job_answer import JobAnswer, RankAnswer
from allocmark.replays.jobs.rank_files import RankFile
from allocmark.system.units import GIB
from allocmark.workloads.event_trace import Trace
from tests.support.answers import answer, whole

_NONE = np.zeros(0, np.int64)
_TRACE = Trace("t", _NONE.astype(np.uint8), _NONE, _NONE, _NONE.astype(np.uint8))


def rank(number: int, *settings: SettingAnswer, alike: tuple[int, ...] = ()) -> RankAnswer:
    facts = {"rank": number, "world_size": 8, "groups": ["nccl 0 8 0:8:1"], "missing": {}}
    recording = Recording("<s>", 0, _TRACE, setting="", environment={"job": facts})
    of = RankFile(Path(f"s.rank{number}.pickle"), recording, number, alike or (number,))
    found = whole(*settings, recording=recording)
    return RankAnswer(of, replace(found, doubts=rank_notes.doubts(recording)))


def job(*ranks: RankAnswer) -> JobAnswer:
    return job_answer.of(ranks)


def test_the_rank_that_needs_most_decides_under_each_setting() -> None:
    found = job(
        rank(0, answer("torch-native*", 3, 1), answer("torch-expandable", 2, 1)),
        rank(1, answer("torch-native*", 2, 1), answer("torch-expandable", 2.5, 1)),
    )
    cards = {one.name: one.smallest_card_bytes for one in found.settings}
    assert cards == {"torch-native": 3 * GIB, "torch-expandable": int(2.5 * GIB)}
    decided = {one.name: decides for one in found.settings if (decides := found.deciding(one))}
    assert {name: one.of.rank for name, one in decided.items()} == {
        "torch-native": 0,
        "torch-expandable": 1,
    }
    assert found.settings[0].name == "torch-expandable"
    text = job_answer.summary(found)
    assert "needs a card with 2.50 GiB usable for every rank" in text
    assert "3 GiB under the recorded torch-native; rank 1 decides" in text
    assert text.endswith("Answered for 2 of 8 ranks")


def test_a_setting_fits_when_every_rank_fits() -> None:
    found = job(
        rank(0, answer("torch-native*", 3, 1, True), answer("torch-expandable", 2, 1, True)),
        rank(1, answer("torch-native*", 5, 1, False), answer("torch-expandable", 2, 1, True)),
    )
    fits = {one.name: one.completes for one in found.settings}
    assert fits == {"torch-native": False, "torch-expandable": True}
    assert job_answer.recommended(found) == "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert "fits every rank's card" in job_answer.summary(found)


def test_where_none_fits_every_rank_the_job_is_too_large() -> None:
    found = job(
        rank(0, answer("torch-native*", 3, 1, True), answer("torch-expandable", 5, 1, False)),
        rank(1, answer("torch-native*", 5, 1, False), answer("torch-expandable", 3, 1, True)),
    )
    assert "no setting lets every rank live on its card" in job_answer.summary(found)


def test_a_setting_without_figures_for_one_rank_is_no_answer() -> None:
    found = job(
        rank(0, answer("torch-native*", 3, 1)),
        rank(1, replace(answer("torch-native*", None, 1), reason="it was killed")),
    )
    assert found.settings[0].smallest_card_bytes is None
    assert job_answer.summary(found).startswith("no setting could be replayed")
    assert "torch-native: it was killed" in job_table.notes(found)


def test_nothing_is_recommended_where_the_recorded_setting_is_as_good() -> None:
    found = job(
        rank(0, answer("torch-native*", 3, 1), answer("torch-expandable", 3, 1)),
        rank(7, answer("torch-native*", 3, 1), answer("torch-expandable", 3, 1)),
    )
    assert job_answer.recommended(found) is None
    assert "the recorded torch-native is as good as any" in job_answer.summary(found)


@pytest.mark.parametrize("format", ["text", "markdown", "page", "json"])
def test_every_form_says_rank_card_and_who_decides(format: str) -> None:
    found = job(
        rank(0, answer("torch-native*", 3, 1), alike=(0, 1, 2, 5)),
        rank(7, answer("torch-native*", 2, 1), alike=(3, 4, 6, 7)),
    )
    text = {
        "text": lambda: job_table.text(found, 110),
        "markdown": lambda: job_table.markdown(found),
        "page": lambda: job_page.render(found),
        "json": lambda: json.dumps(found.to_json()),
    }[format]()
    assert "rank 0 decides" in text
    if format == "json":
        plain = json.loads(text)
        assert plain["settings"][0]["smallest_card_bytes"] == 3 * GIB
        assert plain["settings"][0]["decided_by"] == "rank 0"
        assert [one["ranks"] for one in plain["ranks"]] == [[0, 1, 2, 5], [3, 4, 6, 7]]
        assert plain["ranks_answered_for"] == plain["world_size"] == 8
    else:
        assert "0-2, 5" in text
        assert "3.00 GiB" in text or "3 GiB" in text
        assert "what NCCL takes for itself" in " ".join(text.split())
    if format == "page":
        assert "<s>" not in text.replace("<svg", "")
