"""Every number in a verdict's sentences, worked out anew from the documents, without the suite.

A sentence with a number that nobody worked out here fails, and so does one that lacks a number.
Intervals over workloads come from another bootstrap and may differ by a tenth of their range.
"""

from __future__ import annotations

import pytest

from allocmark.claims import catalog
from allocmark.report.page import page
from allocmark.store.frame import load
from allocmark.store.panel import Panel, panels
from tests.support.second_opinion import request_flow
from tests.support.second_opinion.numbers import numbers
from tests.support.second_opinion.opinions import EXPECTED
from tests.support.second_opinion.raw_record import RESULTS, Record
from tests.support.second_opinion.worked_out import Drawn


@pytest.fixture(scope="module")
def panel() -> Panel:
    found = panels(load(RESULTS.parent)) if RESULTS.is_dir() else []
    if not found:
        pytest.skip("the reference results are not in this copy")
    return found[0]


@pytest.fixture(scope="module")
def sentences(panel: Panel) -> dict[str, str]:
    """Return each verdict's sentences, as the page prints them."""
    return {
        one.claim.id: " ".join(
            str(one.verdict.filled(text)) for text in (one.verdict.condition, one.verdict.cause)
        )
        for one in catalog.verdicts(panel)
    }


@pytest.fixture(scope="module")
def record() -> Record:
    return Record()


def test_there_is_an_opinion_on_every_statement() -> None:
    assert set(EXPECTED) == {claim.id for claim in catalog.claims()}


@pytest.mark.parametrize("claim", sorted(EXPECTED))
def test_every_number_of_a_sentence_is_what_the_documents_say(
    claim: str, sentences: dict[str, str], record: Record
) -> None:
    printed = numbers(sentences[claim])
    expected = EXPECTED[claim](record)
    assert len(printed) == len(expected), (sentences[claim], expected)
    for number, ours in zip(printed, expected, strict=True):
        if isinstance(ours, Drawn):
            assert abs(number.value - ours.value) <= ours.tolerance + number.half, (number, ours)
        else:
            assert number.is_near(ours), (number, ours, sentences[claim])


def test_every_number_of_the_documents_tables_is_what_the_documents_say(
    panel: Panel, record: Record
) -> None:
    ours = [one for of in EXPECTED.values() for one in of(record) if not isinstance(one, Drawn)]
    ours += request_flow.steps(record)
    (part,) = page(panel.store).parts
    tables = [table for section in part.sections for table in section.tables]
    cells = [
        (table.id, str(cell.text))
        for table in tables
        if table.id.startswith("document-")
        for row in table.rows
        for cell in row
        if cell.value is not None
    ]
    assert len(cells) > 80
    unknown = [
        (table, text)
        for table, text in cells
        if not any(numbers(text.rpartition(": ")[2])[0].is_near(number) for number in ours)
    ]
    assert unknown == []


def test_a_number_that_is_off_by_one_in_its_last_place_is_found() -> None:
    (number,) = numbers("It takes 1,036 MiB.")
    assert number.is_near(1036.4 * 2**20) and not number.is_near(1037.1 * 2**20)
    assert [one.text for one in numbers("97.3 % of 11, by CUDA13")] == ["97.3 %", "11"]
