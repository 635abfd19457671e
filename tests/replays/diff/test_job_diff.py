"""Whether a pull request may pass: the smallest card before and after, and its limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from allocmark.recording.importers.recording import Recording
from allocmark.replays.diff import diff_text, job_diff
from allocmark.replays.diff.job_diff import JobDiff, parse_limit
from allocmark.replays.jobs import job_answer
from allocmark.replays.jobs.job_answer import JobAnswer, RankAnswer
from allocmark.replays.jobs.rank_files import RankFile
from allocmark.system.errors import AllocmarkError
from allocmark.system.units import GIB
from tests.support.answers import answer, whole
from tests.support.command import allocmark
from tests.support.emulation import alloc, trace


def job(*cards: float | None) -> JobAnswer:
    """Return a job whose ranks need such cards and hold a hundredth as much at their peak."""
    ranks = []
    for number, card in enumerate(cards):
        recording = Recording("s", 0, trace(alloc(0, int((card or 0) * GIB) // 100)), setting="")
        of = RankFile(Path(f"s.rank{number}.pickle"), recording, number, (number,))
        ranks.append(RankAnswer(of, whole(answer("torch-native*", card, 1), recording=recording)))
    return job_answer.of(ranks)


def diff(before: JobAnswer, after: JobAnswer, limit: str | None = None) -> JobDiff:
    return job_diff.of(before, after, None, parse_limit(limit) if limit else None)


@pytest.mark.parametrize(
    ("card", "limit", "code"),
    [
        (4.0, None, 0),
        (9.0, None, 0),
        (4.03, "1%", 0),
        (4.05, "1%", 1),
        (4.25, "256MiB", 0),
        (4.26, "256MiB", 1),
        (3.0, "0%", 0),
        (4.0, "0%", 0),
        (4.001, "0%", 1),
        (None, "1%", 3),
    ],
)
def test_a_larger_card_fails_beyond_the_limit(
    card: float | None, limit: str | None, code: int
) -> None:
    assert diff(job(4), job(card), limit).exit_code == code


def test_the_rank_that_decides_is_compared_with_itself_before() -> None:
    found = diff(job(5, 4), job(3, 7), "10%")
    assert [figure for figure in found.figures if figure.name == "smallest_card_bytes"] == [
        job_diff.Figure("smallest_card_bytes", 5 * GIB, 7 * GIB)
    ]
    assert [rank.of.rank for rank in found.ranks] == [1, 1]
    assert sum(one.change_bytes for one in found.lines) == 7 * GIB // 100 - 4 * GIB // 100
    assert found.exit_code == 1


@pytest.mark.parametrize("format", ["text", "md", "json"])
def test_every_form_says_figures_lines_and_the_limit(format: str) -> None:
    text = diff_text.FORMATS[format](diff(job(4), job(5), "10%"))
    if format == "json":
        plain = json.loads(text)
        assert (plain["grown_beyond_limit"], plain["limit"]) == (True, "10%")
        assert plain["figures"][0] == {
            "name": "smallest_card_bytes",
            "before": 4 * GIB,
            "after": 5 * GIB,
        }
        assert sum(one["change_bytes"] for one in plain["lines"]) == 5 * GIB // 100 - 4 * GIB // 100
    else:
        plain_text = " ".join(text.split())
        assert "The smallest card grew from 4 GiB to 5 GiB, +1 GiB (+25.0%)" in plain_text
        assert "beyond the limit of 10%" in plain_text
        assert "without a line of Python" in plain_text


def test_a_card_that_is_not_known_is_no_growth() -> None:
    found = diff(job(4), job(None), "1%")
    assert found.grown is None
    assert "is not known: see the reasons" in diff_text.text(found)


@pytest.mark.parametrize("text", ["1", "1 %", "0.5%", "256MiB", "4096"])
def test_limits_are_percent_or_bytes(text: str) -> None:
    assert parse_limit(text).text == text


@pytest.mark.parametrize("text", ["", "much", "1GB", "-1%"])
def test_what_is_no_limit_is_a_sentence(text: str) -> None:
    with pytest.raises(AllocmarkError, match="is no limit: write it as 1% or 256MiB"):
        parse_limit(text)


def test_bad_input_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "none.pickle")
    assert allocmark("diff", missing, missing) == 2
    assert allocmark("diff", missing, missing, "--limit", "much") == 2
    assert allocmark("diff", missing, missing, "--format", "xml") == 2
    said = capsys.readouterr().err
    assert all(words in said for words in ("does not exist", "is no limit", "unknown format"))
