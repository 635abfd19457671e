"""The block under each table: what it says of values that no GPU had computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import report_samples as samples

from allocmark.report.conditions import conditions
from allocmark.store import load


def block(root: Path, notes: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the block over the fragmentation documents of these subjects and their notes."""
    for subject, told in notes.items():
        made = samples.fragmentation(subject, 0.1, 100)
        samples.put(root, replace(made, emulated=True, conditions={"notes": told}))
    store = load(root)
    return dict(conditions(store, store.figures))


def test_computed_values_that_were_copied_are_a_sentence(tmp_path: Path) -> None:
    found = block(
        tmp_path,
        {"peeks": {"computed_values_copied": True, "setting": "a"}, "not": {"setting": "a"}},
    )
    assert found["computed values"].startswith("peeks: values computed on the device were copied")
    assert found["setting"] == "a"
    assert "computed values copied" not in found  # said once, and in words


def test_where_none_were_copied_nothing_is_said(tmp_path: Path) -> None:
    assert "computed values" not in block(tmp_path, {"not": {"setting": "a"}})


def test_errors_and_the_time_of_stages_are_no_conditions(tmp_path: Path) -> None:
    made = samples.fragmentation("torch-native", 0.1, 100)
    held = {"notes": {"error: too late": "RuntimeError: no"}, "seconds": {"uniform": 1.5}}
    samples.put(tmp_path, replace(made, conditions=held))
    store = load(tmp_path)
    found = dict(conditions(store, store.figures))
    assert not {"error: too late", "uniform", "seconds"} & found.keys()
