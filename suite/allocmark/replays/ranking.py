"""Which setting to name first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from allocmark.replays.answer import SettingAnswer

_ALIKE = 1.01
"""Cards within one percent are alike: the search is settled to half of that."""
_SAME_TIME = 1.1
_SAME_TIME_S = 0.01
"""Estimates of time within ten percent, or ten milliseconds, are."""


def ranked(answers: Sequence[SettingAnswer], of_torch: bool) -> list[SettingAnswer]:
    """Return the settings, best first; those without figures are last.

    On a card: what fits before what does not, without a retry before with, then the least time in
    the driver, then what needs least to have no retry. Without one, or where it does not fit: the
    smallest card, then the least time. Where a figure may be off, the most that it stands for
    counts: only what is decided gains a place, and where private pools were replayed as one nothing
    is. What a program of torch (`of_torch`) cannot be given
    by a line in its environment comes after what it can. The recorded setting is first where no
    other gains anything.
    """
    cards = _groups({one.name: _card(one) or 0 for one in answers}, _ALIKE, 0.0)
    peaks = _groups({one.name: _peak(one) or 0 for one in answers}, _ALIKE, 0.0)
    times = _groups({one.name: _seconds(one) for one in answers}, _SAME_TIME, _SAME_TIME_S)

    def key(answer: SettingAnswer) -> tuple[bool | float | str, ...]:
        foreign = of_torch and answer.setting.allocator.framework != "torch"
        without = answer.smallest_card_bytes is None or answer.pools_joined
        if answer.completes:
            retried = bool(answer.figure("capacity_retries"))
            first = (without, False, foreign, retried, times[answer.name], peaks[answer.name])
        else:
            fails = answer.completes is False or answer.undecided
            first = (without, fails, foreign, False, cards[answer.name], times[answer.name])
        return (*first, _seconds(answer), answer.name)

    order = sorted(answers, key=key)
    own = next((answer for answer in order if answer.setting.recorded), None)
    if own is not None and _gains_nothing(order[0], own):
        order.remove(own)
        order.insert(0, own)
    return order


def alike(first_bytes: int | None, second_bytes: int | None) -> bool:
    """Say whether two cards are too close to tell apart."""
    if first_bytes is None or second_bytes is None:
        return first_bytes == second_bytes
    return max(first_bytes, second_bytes) <= min(first_bytes, second_bytes) * _ALIKE


def _gains_nothing(best: SettingAnswer, own: SettingAnswer) -> bool:
    """Say whether what ranks first is no better than the recorded setting."""
    if own.smallest_card_bytes is None or own.completes != best.completes:
        return False
    if own.completes is False:
        return alike(_card(best), _card(own))
    if own.completes and best.figure("capacity_retries") != own.figure("capacity_retries"):
        return False
    if not own.completes and not alike(_card(best), _card(own)):
        return False
    if own.completes and not alike(_peak(best), _peak(own)):
        return _seconds(own) < _seconds(best)
    return _seconds(own) <= _seconds(best) * _SAME_TIME + _SAME_TIME_S


def _card(answer: SettingAnswer) -> int | None:
    """Return the smallest card, at most."""
    value = answer.smallest_card_bytes
    return None if value is None else answer.interval(value)[1]


def _peak(answer: SettingAnswer) -> int | None:
    """Return the card without a retry, at most."""
    value = answer.no_retry_card_bytes
    return None if value is None else answer.interval(value)[1]


def _seconds(answer: SettingAnswer) -> float:
    return answer.driver_time.seconds if answer.driver_time else math.inf


def _groups(values: Mapping[str, float], times: float, more: float) -> dict[str, int]:
    """Return a number for each, the same where values are alike, smallest first."""
    groups: dict[str, int] = {}
    first, number = 0.0, 0
    for name, value in sorted(values.items(), key=lambda item: item[1]):
        if value > first * times + more:
            first, number = value, number + 1
        groups[name] = number
    return groups
