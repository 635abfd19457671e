"""The record has declared metrics only, and the docs list exactly these."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allocmark.schema import flags, metrics
from allocmark.schema.flags import NOT_SETTLED, SENTENCES
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import latency, streams

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "metrics.md"
KINDS = {"exact": {"exact", "sampled"}, "sampled": {"sampled"}, "time": {"time"}}
"""What figures with a value may be: an exact metric has sampled ones where it does not repeat."""


def _recorded() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((ROOT / "results").rglob("*.json.gz")):
        document = json.loads(gzip.decompress(path.read_bytes()))
        for figure in document["figures"]:
            yield document["probe"], figure


@pytest.mark.skipif(not (ROOT / "results").is_dir(), reason="there is no record here")
def test_every_figure_of_the_record_is_declared() -> None:
    wrong = set()
    for experiment, figure in _recorded():
        wrong |= {(experiment, flag) for flag in figure.get("flags", ()) if flag not in SENTENCES}
        metric = metrics.find(experiment, figure["metric"])
        if metric is not None and figure["unit"] == metric.unit:
            kinds = KINDS[metric.kind] if "value" in figure else KINDS["exact"] | KINDS["time"]
            if {*figure["axes"]} == {*metric.axes} and figure["kind"] in kinds:
                continue
        wrong.add((experiment, figure["metric"], figure["unit"], figure["kind"], *figure["axes"]))
    assert not wrong


def test_a_metric_is_found_by_experiment_and_name() -> None:
    assert metrics.find("latency", "call_ns") is latency.CALL_NS
    assert metrics.find("streams", "pair_ns") is streams.PAIR_NS
    assert metrics.find("streams", "call_ns") is None
    assert metrics.find("of a stranger", "call_ns") is None


def _row(metric: Metric) -> str:
    axes = ", ".join(f"`{axis}`" for axis in metric.axes)
    cells = (f"`{metric.name}`", metric.unit, metric.kind, axes, metric.better, metric.help)
    return "| " + " | ".join(cells).replace("|  |", "| |") + " |"


def test_the_docs_list_every_metric_as_it_is_declared() -> None:
    section = PAGE.read_text().partition("\n## Metrics\n")[2].partition("\n## ")[0]
    shown = [line for line in section.splitlines() if line.startswith(("### ", "| `"))]
    expected = []
    for experiment, own in metrics.declared().items():
        expected += [f"### `{experiment}`", *map(_row, own.values())]
    assert shown == expected, "docs/metrics.md should have:\n" + "\n".join(expected)


def test_the_docs_list_every_flag() -> None:
    section = PAGE.read_text().partition("\n## Flags\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(flag.strip(" `") for row in rows for flag in row.split(",")) == sorted(SENTENCES)


def test_every_flag_has_a_sentence() -> None:
    known = {v for n, v in vars(flags).items() if n.isupper() and isinstance(v, str)}
    assert NOT_SETTLED in known
    assert known == set(SENTENCES)


def test_builders_say_what_the_metric_says() -> None:
    figure = latency.CALL_NS.sampled("loop", {"bytes": 512}, [3.0, 1.0, 2.0], flags=("noisy-cpu",))
    assert (figure.metric, figure.unit, figure.kind) == ("call_ns", "ns", "time")
    assert (figure.value, figure.samples) == (2.0, [3.0, 1.0, 2.0])
    assert figure.flags == ("wide-interval", "noisy-cpu")
    once = streams.RESERVED_BYTES.figure("counters", {}, 7, [7], kind="sampled")
    assert (once.kind, once.value, once.samples, once.flags) == ("sampled", 7, [7], ())


def test_an_empty_cell_is_of_no_meter_unless_one_would_have_read_it() -> None:
    gone = latency.CALL_NS.missing("no GPU", {"bytes": 512})
    assert (gone.kind, gone.meter, gone.reason) == ("exact", "none", "no GPU")
    named = latency.CALL_NS.missing("no GPU", {"bytes": 512}, "loop")
    assert (named.kind, named.meter, named.value) == ("time", "loop", None)
