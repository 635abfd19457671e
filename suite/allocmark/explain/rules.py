"""The diagnostic rules on a running process: those that hold where it runs, and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from allocmark.claims.core.claim import Ruling, Verdict
from allocmark.claims.shared.indicators import RULE_30, RULE_RETRIES
from allocmark.explain import process
from allocmark.explain.account import Account
from allocmark.explain.counter_file import Counters
from allocmark.explain.measured_facts import MEASURE, RULES, MeasuredFacts
from allocmark.system.units import format_bytes

_NO_COUNTERS = "it needs torch's counters: call allocmark.watch() in the process"
_APPLIED = (Ruling.HOLDS, Ruling.IN_PART)
_MOST_LETTERS = 200
_LITTLE = 2
"""A process with less than so many contexts' bytes holds little beyond its own."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A rule that holds, at least in part: its sentence, when it holds, and what it finds here.

    `caution` says on how little that it holds rests, nothing where it is enough.
    """

    id: str
    ruling: str
    statement: str
    condition: str
    caution: str
    finding: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The rules that were applied, and one sentence on the others; empty where there are none."""

    applied: tuple[Applied, ...]
    not_applied: str


def apply(account: Account, facts: MeasuredFacts) -> Diagnosis:
    """Return what the rules say; those that do not hold on this GPU's results are left out."""
    verdicts = facts.verdicts()
    if not verdicts:
        return Diagnosis((), f"no rule is applied: {facts.where} ({MEASURE})")
    applied = tuple(
        Applied(
            claim.id,
            str(verdict.ruling),
            str(claim.statement),
            str(verdict.filled(verdict.condition)),
            facts.caution(verdict),
            _FINDINGS[claim.id](account, facts),
        )
        for claim, verdict in verdicts
        if verdict.ruling in _APPLIED
    )
    others = [f"{c.id} ({_why_not(v)})" for c, v in verdicts if v.ruling not in _APPLIED]
    sentence = f"not applied: {', '.join(others)}; {facts.where}" if others else ""
    return Diagnosis(applied, sentence)


def _why_not(verdict: Verdict) -> str:
    reason = process.printable(str(verdict.filled(verdict.reason)), _MOST_LETTERS)
    return f"{verdict.ruling}: {reason}" if reason else str(verdict.ruling)


def _contexts(account: Account, facts: MeasuredFacts) -> str:
    processes, context = account.gpu.processes, facts.context_bytes
    if processes is None:
        return "NVML does not list processes here"
    if context is None:
        return facts.context_note
    if len(processes) <= 1:
        return "no other process has a context on this GPU"
    sizes = [count for count in processes.values() if count is not None]
    little = sum(count < _LITTLE * context for count in sizes)
    return (
        f"{len(processes)} processes have a context on this GPU, about "
        f"{format_bytes(len(processes) * context)} in all; {little} of them hold little else"
    )


def _cached_share(account: Account, facts: MeasuredFacts) -> str:
    found = []
    for counted in _torch(account):
        if counted.reserved_bytes and counted.most_cached_share is not None:
            now, most = 1 - counted.live_bytes / counted.reserved_bytes, counted.most_cached_share
            shows = _presence(most > RULE_30.above)
            found.append(f"{now:.0%} of what is reserved is not live, {most:.0%} at most: {shows}")
    return "; ".join(found) or _NO_COUNTERS


def _retries(account: Account, facts: MeasuredFacts) -> str:
    found = []
    for counted in _torch(account):
        if counted.retries is not None:
            shows = _presence(counted.retries > RULE_RETRIES.above)
            ooms = f" and {counted.ooms} failed allocations" if counted.ooms else ""
            found.append(f"num_alloc_retries is {counted.retries}{ooms}: {shows}")
    return "; ".join(found) or _NO_COUNTERS


def _torch(account: Account) -> list[Counters]:
    return [counted for counted in account.counters if counted.framework == "torch"]


def _presence(there: bool) -> str:
    return f"the indicator is {'present' if there else 'absent'}"


_FINDINGS: dict[str, Callable[[Account, MeasuredFacts], str]] = dict(
    zip((claim.id for claim in RULES), (_contexts, _cached_share, _retries), strict=True)
)
