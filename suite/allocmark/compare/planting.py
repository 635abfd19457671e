"""Changes with a known answer, for the simulations: steps in figures, and runs drawn from one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from allocmark.compare.model import place_text
from allocmark.compare.pairing import Couple
from allocmark.compare.sides import Side, Source
from allocmark.compare.thresholds import Thresholds
from allocmark.figures import Figure


def stepped(figure: Figure, factor: float) -> Figure:
    """Return the figure with its value, samples and interval times `factor`."""
    interval = figure.interval
    return replace(
        figure,
        value=None if figure.value is None else figure.value * factor,
        samples=[sample * factor for sample in figure.samples],
        interval=None if interval is None else (interval[0] * factor, interval[1] * factor),
    )


def plant(couple: Couple, factor: float) -> Couple:
    """Return the couple with a step in every run of B."""
    return replace(couple, b={run: stepped(figure, factor) for run, figure in couple.b.items()})


def counted_up(couple: Couple) -> Couple:
    """Return the couple with one more in B, for figures that are counted."""
    return replace(
        couple,
        b={run: replace(f, value=f.value and f.value + 1) for run, f in couple.b.items()},
    )


def drawn(side: Side, runs: int, thresholds: Thresholds, seed: int) -> list[Side]:
    """Return runs drawn from the single run of a side: nothing is changed, all of it is noise.

    Each sampled figure is drawn again from its own samples, and moved by what the thresholds say
    of its process and of itself. For trying things out: how real runs differ, only real runs say.
    """
    generator = np.random.default_rng(seed)
    return [
        Side(
            f"drawn {number}",
            tuple(_drawn(source, number, thresholds, generator) for source in side.sources),
        )
        for number in range(1, runs + 1)
    ]


def _drawn(
    source: Source, number: int, thresholds: Thresholds, generator: np.random.Generator
) -> Source:
    document = source.document
    common: dict[str, float] = {}
    figures: list[Figure] = []
    for figure in document.figures:
        if figure.value is None or figure.kind == "exact":
            figures.append(figure)
            continue
        place = place_text(document.probe, document.subject, figure.metric, figure.axes)
        rule = thresholds.of(place)
        shared = common.setdefault(rule.group, generator.normal(0, rule.process))
        own = generator.normal(0, rule.figure) if len(set(figure.samples)) > 1 else 0.0
        figures.append(stepped(_again(figure, generator), math.exp(shared + own)))
    document = replace(document, run=f"{document.run}-{number}", figures=figures)
    return replace(source, document=document)


def _again(figure: Figure, generator: np.random.Generator) -> Figure:
    """Return the figure with its samples drawn again, if it is their median."""
    if figure.counts or not figure.samples or figure.value != float(np.median(figure.samples)):
        return figure
    samples: Sequence[float] = generator.choice(figure.samples, len(figure.samples)).tolist()
    return replace(figure, samples=samples, value=float(np.median(samples)))
