"""Replays from Python: for notebooks, and for checks that guard a model's smallest card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from allocmark.replays.answer import ReplayAnswer
from allocmark.replays.command import ReplayRequest, find
from allocmark.replays.summary import recommended, summary


def replay(
    file: str | Path,
    settings: Sequence[str] = (),
    *,
    capacity: str | None = None,
    outside: str | None = None,
    device: int | None = None,
    emulated: bool = False,
) -> pd.DataFrame:
    """Return a row for each setting, best first; bytes are whole numbers, missing ones NaN.

    `settings` are allocators of the suite (``torch-expandable``) or texts for
    ``PYTORCH_CUDA_ALLOC_CONF``; without any, all of torch's are tried. `capacity` and `outside` are
    sizes such as ``"24GiB"``. ``frame.attrs`` holds the ``answer`` in a sentence, the line that is
    ``recommended``, a ``contradiction`` between replay and recording (None without one), and what
    the rows rest on: ``agreement``, ``doubts``, ``outside``, ``card``, ``where``, ``emulated``.
    Raises `AllocmarkError` with one sentence for what cannot be read or is not known.
    """
    request = ReplayRequest(
        Path(file),
        settings=tuple(settings),
        capacity=capacity,
        outside=outside,
        device=device,
        emulated=emulated,
    )
    return frame(find(request))


def frame(answer: ReplayAnswer) -> pd.DataFrame:
    """Return an answer as a data frame."""
    plain = answer.to_json()
    made = pd.DataFrame(plain.pop("settings")).drop(columns="reasons", errors="ignore")
    made.attrs.update(plain, answer=summary(answer), recommended=recommended(answer))
    return made
