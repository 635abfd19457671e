"""What a difference must be before it matters: rules by pattern, from one small file."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from allocmark.schema import metrics
from allocmark.schema.metric import Better
from allocmark.system.errors import AllocmarkError

Reading = Literal["median", "fastest"]
_NUMBERS = ("least", "process", "figure")


@dataclass(frozen=True)
class Rule:
    """What holds for the figures whose name fits `pattern`; see ``thresholds.toml``.

    `least`, `process` and `figure` are relative: 0.05 is 5 %. `better` is the metric's own where
    the file does not say otherwise.
    """

    pattern: str
    group: str = "others"
    least: float = 0.05
    process: float = 0.0
    figure: float = 0.10
    reading: Reading = "median"
    better: Better | None = None
    ignore: bool = False

    @cached_property
    def fits(self) -> re.Pattern[str]:
        """The pattern, compiled."""
        return re.compile(fnmatch.translate(self.pattern))


class Thresholds:
    """The rules in order; the first that fits a name decides."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._known: dict[str, Rule] = {}

    def of(self, figure_id: str) -> Rule:
        """Return the rule of a figure's name. Raises `AllocmarkError` where none fits."""
        if (known := self._known.get(figure_id)) is not None:  # Many stacks have the same names.
            return known
        for rule in self.rules:
            if rule.fits.match(figure_id):
                return self._known.setdefault(figure_id, _directed(rule, figure_id))
        raise AllocmarkError(f"no pattern fits {figure_id}: end the thresholds with pattern = '*'")


def load(own: Path | None = None) -> Thresholds:
    """Return the suite's rules, those of the file `own` before them.

    Raises `AllocmarkError` for a file that cannot be used.
    """
    rules = _rules(files(__package__).joinpath("thresholds.toml").read_text(), "thresholds.toml")
    if own is None:
        return Thresholds(rules)
    try:
        text = own.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AllocmarkError(f"{own} cannot be read ({error}): name another file") from error
    return Thresholds([*_rules(text, str(own)), *rules])


def _directed(rule: Rule, figure_id: str) -> Rule:
    """Return the rule with the direction in which the metric of that name is better."""
    experiment, _, rest = figure_id.partition("/")
    metric = metrics.find(experiment, rest.partition("/")[2].partition(" ")[0])
    return _with(rule, rule.better or ("less" if metric is None else metric.better))


@cache
def _with(rule: Rule, better: Better) -> Rule:
    return replace(rule, better=better)


def _rules(text: str, name: str) -> list[Rule]:
    try:
        return [_rule(entry) for entry in tomllib.loads(text).get("figure", [])]
    except (tomllib.TOMLDecodeError, TypeError, ValueError, AttributeError) as error:
        raise AllocmarkError(f"{name} is not usable ({error}): correct it") from error


def _rule(entry: dict[str, Any]) -> Rule:
    if not isinstance(entry.get("pattern"), str):
        raise ValueError("a [[figure]] has no pattern")
    rule = Rule(**entry)
    for name in _NUMBERS:
        number = getattr(rule, name)
        if isinstance(number, bool) or not isinstance(number, int | float) or number < 0:
            raise ValueError(f"{name} of {rule.pattern} is {number!r}, not a share such as 0.05")
    if rule.better not in (None, *get_args(Better)):
        raise ValueError(f"better of {rule.pattern} is {rule.better!r}, not less, more or neither")
    if rule.reading not in get_args(Reading):
        raise ValueError(f"reading of {rule.pattern} is {rule.reading!r}, not median or fastest")
    return rule
