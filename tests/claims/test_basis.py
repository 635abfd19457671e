"""On how much a verdict rests: counted from the store, said wherever that is little."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.claims import catalog
from allocmark.claims.core.basis import FEW_READINGS, Basis, basis
from allocmark.claims.core.claim import Ruling
from allocmark.report.translation import rendered
from allocmark.schema.figure import Figure
from allocmark.store.frame import load
from allocmark.store.panel import panels
from tests.support import claims_samples as claims
from tests.support import html_samples
from tests.support import report_samples as samples
from tests.support.html_samples import published

FULL, QUICK = ("full",), ("quick",)


@pytest.mark.parametrize(
    ("of", "english", "chinese"),
    [
        (Basis(0, (10,), FULL), "1 figure of a full run, 10 readings", "读 10 次"),
        (Basis(0, (1, 1), FULL), "2 figures of a full run, one reading each", "各读 1 次"),
        (Basis(0, (1, 1200), FULL), "2 figures of a full run, 1 to 1,200 readings each", "至"),
        (Basis(3, (), QUICK), "3 figures of a quick run, exact", "快速测量的 3 个精确数值"),
        (
            Basis(1, (6, 6), QUICK),
            "3 figures of a quick run: 1 exact, 2 with 6 readings each",
            "快速测量的 3 个数值：1 个精确，2 个各读 6 次",
        ),
        (
            Basis(2, (), ("full", "quick")),
            "2 figures of a full run and a quick run, exact",
            "完整测量与快速测量的 2 个精确数值",
        ),
        (Basis(1, (), ("{x}",)), "1 figure of a {x} run, exact", "{x} 测量的 1 个精确数值"),
    ],
)
def test_what_it_rests_on_is_said_in_both_languages(of: Basis, english: str, chinese: str) -> None:
    assert str(of.words) == english
    assert chinese in rendered(of.words, "zh")


@given(st.integers(0, 3), st.lists(st.integers(1, 12), max_size=12), st.booleans())
def test_few_is_a_quick_run_or_few_readings_of_what_may_differ(
    exact: int, readings: list[int], quick: bool
) -> None:
    of = Basis(exact, tuple(readings), QUICK if quick else FULL)
    assert of.few == (quick or 0 < sum(readings) < FEW_READINGS)


def test_rows_are_counted_once_and_one_without_samples_was_read_once(tmp_path: Path) -> None:
    figures = [
        Figure("a_bytes", "bytes", "exact", "test", {}, 1.0),
        Figure("b_bytes", "bytes", "sampled", "test", {}, 1.0),
        Figure("c_ns", "ns", "time", "test", {}, 1.0, [1.0, 1.5], counts=[300, 200]),
    ]
    samples.put(tmp_path, samples.document("pressure", "one", figures[:2], profile="full"))
    samples.put(tmp_path, samples.document("pressure", "two", figures[2:]))
    (panel,) = panels(load(tmp_path))
    rows = panel.rows.sort_values("metric").index.tolist()
    assert basis(panel, [*rows, *rows]) == Basis(1, (1, 500), ("full", "quick"))
    assert basis(panel, rows[:1]) == Basis(1, (), FULL)
    assert basis(panel, []) is None


def test_each_verdict_rests_on_the_rows_of_its_evidence() -> None:
    given_ = 0
    for panel in (claims.panel(), claims.panel(emulated=True), published().part.panel):
        for one in catalog.verdicts(panel):
            rows = {index for each in one.verdict.evidence for index in each.cell.rows}
            if one.verdict.ruling is Ruling.NOT_MEASURED:
                assert one.basis is None
            else:
                assert one.basis is not None and one.basis.figures == len(rows) > 0
                given_ += 1
    assert given_ > 80


def test_a_verdict_on_little_says_so_in_its_place_and_on_the_first_screen(tmp_path: Path) -> None:
    """Of a quick run everywhere; of a full one where not much was read."""
    for made in (published(), _of_claims(tmp_path)):
        hero, _, rest = made.html.partition('<section class=part id="')
        judged = {one.claim.id: one for one in made.part.judged}
        own = [one for one in judged.values() if not one.claim.composite]
        few = [one for one in own if one.caution]
        counted = f"{len(few)} of {sum(one.basis is not None for one in own)} verdicts"
        assert counted in hero and few
        for one in made.part.judged:
            said = rest.partition(f'id="claim-{one.claim.id}"')[2].partition("</details>")[0]
            assert (str(one.basis.words) in said) if one.basis else "rests on" not in said
        for card in made.part.headlines:
            text = hero.partition(f'href="#claim-{card.id}"')[2].partition("</a>")[0]
            told = judged[card.id].caution
            assert (
                (str(told) in text and rendered(told, "zh") in text)
                if told
                else "<small>" not in text
            )


def test_a_quick_verdict_says_so_in_the_tables_of_the_document(tmp_path: Path) -> None:
    made = _of_claims(tmp_path)
    tables = [table for section in made.part.sections for table in section.tables]
    (shown,) = (table for table in tables if table.id == "document-modes")
    texts = [str(cell.text) for row in shown.rows for cell in row]
    told = [text for text in texts if "quick run" in text]
    assert len(told) >= 3
    assert all(text.endswith("exact)") for text in told)


def _of_claims(root: Path) -> html_samples.Made:
    store = claims.written(root)
    assert store.sources
    return html_samples.made(root, drawn=False)
