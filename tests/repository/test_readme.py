"""Both READMEs: every figure that they state is one of the committed record, and they are short."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from allocmark.claims import catalog
from allocmark.store.frame import load
from allocmark.system.units import MIB

PROJECT = Path(__file__).parents[2]
LONGEST = 120
"""Lines of a README."""
NAMES = ("README.md", "README.zh.md")
_CODE = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)")


def texts() -> dict[str, str]:
    """Return both, the sentences of each on one line."""
    return {name: " ".join((PROJECT / name).read_text().split()) for name in NAMES}


@pytest.fixture(scope="module")
def figures() -> pd.DataFrame:
    frame = load(PROJECT / "results").figures
    return frame[(frame.machine == "nvidia-h200") & (frame.profile == "full")]


def row(figures: pd.DataFrame, probe: str, subject: str, metric: str, **axes: Any) -> Any:
    """Return the only row of these axes."""
    rows = figures[(figures.probe == probe) & (figures.subject == subject)]
    rows = rows[rows.metric == metric]
    for axis, at in axes.items():
        rows = rows[rows[axis] == at]
    assert len(rows) == 1, (metric, axes)
    return next(rows.itertuples())


def test_what_is_said_of_a_context_was_measured(figures: pd.DataFrame) -> None:
    def context(stage: str, loading: str) -> str:
        axes = {"stage": stage, "module_loading": loading, "axis_meter": "nvml_process"}
        found = row(figures, "context", "torch", "total_bytes", **axes)
        return f"{found.value / MIB:.0f} MiB"

    first = context("context", "LAZY")
    last = [context("first matrix product", loading) for loading in ("LAZY", "EAGER")]
    stated(
        (f"{first} by NVML before any tensor", f"NVML 读数为 {first}"),
        (f"{last[0]} after torch's first kernel and matrix", f"矩阵乘之后为 {last[0]}"),
        (f"and {last[1]} when modules are loaded EAGER", f"EAGER 方式加载时为 {last[1]} |"),
    )


def test_what_is_said_of_empty_cache_was_measured(figures: pd.DataFrame) -> None:
    def shown(point: str) -> float:
        axes = {"point": point, "counter": "NVML process"}
        found = row(figures, "pressure", "torch-native", "shown_bytes", **axes)
        return float(found.value) / MIB

    before, after = shown("all freed"), shown("all freed, cache emptied")
    kept = shown("half freed") - shown("half freed, cache emptied")
    stated(
        (
            f"falls from {before:.0f} to {after:.0f} MiB for the process",
            f"从 {before:.0f} MiB 降到 {after:.0f} MiB",
        ),
        (f"it falls by {kept:.0f} MiB |", f"则下降 {kept:.0f} MiB |"),
    )


def test_what_is_said_of_settings_was_measured(figures: pd.DataFrame) -> None:
    def needs(allocator: str) -> str:
        names = ("capacity", allocator, "smallest_capacity_bytes")
        return f"{row(figures, *names, workload='ascending').value / MIB:.0f} MiB"

    peak = row(
        figures, "fragmentation", "torch-native", "peak_reserved_bytes", workload="ascending"
    )
    default, best, worst = map(needs, ("torch-native", "torch-expandable", "torch-roundup4"))
    held = f"{peak.value / MIB:.0f} MiB"
    stated(
        (f"{default} under default settings", f"默认设置 {default}"),
        (f"{best} with expandable segments", f"可扩展段（expandable segments）{best}"),
        (f"{worst} with `roundup_power2_divisions:4`", f"`roundup_power2_divisions:4` {worst}"),
        (f"its peak where nothing is short, {held}, is mostly cache", f"峰值为 {held}，"),
    )


def test_what_is_said_of_threads_was_measured(figures: pd.DataFrame) -> None:
    found = row(figures, "streams", "torch-native", "speedup", threads=8, stream="own")
    ends = f"{found.low:.2f}", f"{found.high:.2f}"
    stated(
        (
            f"{found.value:.2f} times single-thread throughput ({ends[0]} to {ends[1]}) |",
            f"单线程的 {found.value:.2f} 倍（{ends[0]} 至 {ends[1]}） |",
        )
    )


def test_what_is_said_of_tensorflow_was_measured(figures: pd.DataFrame) -> None:
    def share(point: str) -> str:
        axes = {"point": point, "meter": "nvml_device"}
        found = row(figures, "tensorflow_policy", "tf-greedy", "taken_share", **axes)
        return f"{100 * found.value:.1f} %"

    first, then = share("device created"), share("first tensor")
    stated(
        (f"[{first} of the GPU's memory]", f"占 GPU 显存的 {first}]"),
        (f"device is created, {then} with its first tensor", f"时升至 {then} |"),
    )


def test_the_number_of_statements_is_that_of_the_rules() -> None:
    count = sum(not claim.composite for claim in catalog.claims())
    stated((f"Statements like these, {count} in all,", f"这样的说法共 {count} 条"))


def stated(*pairs: tuple[str, str]) -> None:
    """Assert that each README says its own of each pair."""
    english, chinese = texts().values()
    for in_english, in_chinese in pairs:
        assert in_english in english
        assert in_chinese in chinese


@pytest.mark.parametrize("name", NAMES)
def test_it_is_short_enough_to_be_read(name: str) -> None:
    assert len((PROJECT / name).read_text().splitlines()) <= LONGEST


def commands(name: str) -> Sequence[str]:
    """Return the commands without what is said of them."""
    blocks = _CODE.findall((PROJECT / name).read_text())
    return [line.partition("  #")[0].rstrip() for block in blocks for line in block.splitlines()]


def test_both_have_the_same_commands_links_and_sizes() -> None:
    assert commands(NAMES[0]) == commands(NAMES[1])
    links, sizes = [], []
    for name in NAMES:
        text = (PROJECT / name).read_text()
        links.append({found for found in _LINK.findall(text) if found[0] not in NAMES})
        sizes.append(sorted(re.findall(r"[\d.]+ GB", text)))
    assert links[0] == links[1]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("name", NAMES)
def test_its_links_lead_somewhere(name: str) -> None:
    for path, anchor in _LINK.findall((PROJECT / name).read_text()):
        assert (PROJECT / path).exists(), path
        if anchor and path.endswith(".html"):
            assert f'id="{anchor}"' in (PROJECT / path).read_text(), (path, anchor)
