"""All claims in the order of the source document, and all of a panel's verdicts."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Sequence

from allocmark import claims as package
from allocmark.claims.core.claim import Claim, Headline, Judgement, Section
from allocmark.claims.core.judging import judge
from allocmark.store.panel import Panel
from allocmark.system.errors import AllocmarkError

HEADLINES = 5
"""How many figures the first screen has, for whoever reads nothing else."""


def claims() -> tuple[Claim, ...]:
    """Return every claim of the package: each `Claim` that a module below it defines is found.

    Raises `AllocmarkError` where two have one name.
    """
    modules = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    found = [
        value
        for module in modules
        for value in vars(importlib.import_module(module.name)).values()
        if isinstance(value, Claim)
    ]
    if taken := [name for name, n in Counter(claim.id for claim in found).items() if n > 1]:
        raise AllocmarkError(f"two claims are named {taken[0]!r}: rename yours")
    sections = list(Section)
    return tuple(sorted(found, key=lambda claim: (sections.index(claim.place[0]), claim.place[1])))


def verdicts(panel: Panel) -> tuple[Judgement, ...]:
    """Return the verdict on every claim from what a panel shows."""
    return judge(claims(), panel)


def headlines(judgements: Sequence[Judgement]) -> tuple[Headline, ...]:
    """Return the first figures that there are, the best first; fewer where less was measured."""
    found = []
    for judgement in judgements:
        shown, verdict = judgement.claim.first_screen, judgement.verdict
        if shown is not None and (evidence := verdict.find(shown.evidence)) is not None:
            words = verdict.filled(shown.words)
            headline = Headline(judgement.claim.id, words, evidence, judgement.caution)
            found.append((shown.rank, headline))
    found.sort(key=lambda ranked: ranked[0])
    return tuple(headline for _, headline in found[:HEADLINES])
