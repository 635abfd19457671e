"""The table for the terminal: an empty cell has its reason below."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from allocmark.replays import table
from tests.support.answers import answer, whole


def test_why_a_card_has_no_answer_is_said_below() -> None:
    unknown = replace(answer("tf-limit", 9, 0.1), reasons={"completes": "no ballast here"})
    stream = io.StringIO()
    Console(file=stream).print(
        table.render(whole(answer("torch-native*", 3, 0.1, fits=True), unknown))
    )
    assert "- tf-limit on this card: no ballast here" in stream.getvalue()
