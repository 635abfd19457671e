"""An answer as text for a terminal, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from allocmark.explain.account import Account, Part
from allocmark.explain.explain import ProcessReport
from allocmark.explain.rules import Diagnosis
from allocmark.system.units import format_bytes

_NAME, _BYTES = 28, 12


def as_text(answer: ProcessReport) -> str:
    """Return the parts of each GPU, a line each, and what the rules say."""
    lines = []
    for account, diagnosis in answer.gpus:
        gpu = account.gpu
        kind = ", emulated" if answer.emulated else ""
        lines.append(
            f"process {answer.process.pid} ({answer.process.command}) on {gpu.name} "
            f"({gpu.uuid}), driver {gpu.driver}{kind}"
        )
        lines += [_line(part) for part in (account.total, *account.parts)]
        if answer.age_s is not None and account.counters:
            lines.append(f"  its own counters are {answer.age_s:.1f} s old{_seen(account)}")
        for rule in diagnosis.applied:
            rests = f", rests on {rule.caution}" if rule.caution else ""
            lines.append(f"  {rule.id} ({rule.ruling}{rests}): {rule.finding}")
            lines.append(f"      {rule.statement} {rule.condition}")
        if diagnosis.not_applied:
            lines.append(f"  {diagnosis.not_applied}")
    return "\n".join([*lines, ""])


def _line(part: Part) -> str:
    count = "unknown" if part.bytes is None else format_bytes(part.bytes)
    return f"  {part.name:{_NAME}}{count:>{_BYTES}}  {part.note}"


def _seen(account: Account) -> str:
    """Return what torch has counted, whether a rule makes anything of it or not."""
    return "".join(
        f"; num_alloc_retries {counted.retries}, num_ooms {counted.ooms}"
        for counted in account.counters
        if counted.retries is not None and counted.ooms is not None
    )


def as_json(answer: ProcessReport) -> str:
    """Return the same as an object; bytes that are not known are null."""
    plain = {
        "pid": answer.process.pid,
        "command": answer.process.command,
        "emulated": answer.emulated,
        "counters_age_s": answer.age_s,
        "gpus": [_gpu(account, diagnosis) for account, diagnosis in answer.gpus],
    }
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _gpu(account: Account, diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "uuid": account.gpu.uuid,
        "gpu": account.gpu.name,
        "driver": account.gpu.driver,
        "total": asdict(account.total),
        "parts": [asdict(part) for part in account.parts],
        "counters": [asdict(counted) for counted in account.counters],
        "rules": [asdict(rule) for rule in diagnosis.applied],
        "not_applied": diagnosis.not_applied,
    }


FORMATS: dict[str, Callable[[ProcessReport], str]] = {"text": as_text, "json": as_json}
