"""asv's result file of one stack at one revision of the suite, written by asv's own classes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from asv.console import log
from asv.environment import get_env_name
from asv.machine import Machine
from asv.results import Results, get_filename
from asv.runner import log_benchmark_result

from allocmark.asv.cells import cells_of
from allocmark.asv.questions import evaluate, question_of
from allocmark.machine.identity import identity_of, machine_facts, refuse_to_mix
from allocmark.machine.stack import Stack
from allocmark.schema import documents


class ResultFile:
    """The file, with what it holds already.

    `date` of the commit is in milliseconds since 1970. `machine` is the name that it is kept under,
    None: the stack's. Raises `AllocmarkError` where it was measured under another identity.
    """

    def __init__(
        self,
        results: Path,
        stack: Stack,
        profile: str,
        commit: str,
        date: int,
        machine: str | None = None,
    ) -> None:
        self._folder = str(results)
        self._machine = {**machine_facts(stack), "machine": machine or stack.machine}
        identity = identity_of(stack, profile)
        self.name = get_env_name("stack", stack.python, identity, {})
        file = results / get_filename(self._machine["machine"], commit, self.name)
        refuse_to_mix(file, identity | self._machine)
        self._results = Results(
            params={**self._machine, "python": stack.python, **identity},
            requirements=identity,
            commit_hash=commit,
            date=date,
            python=stack.python,
            env_name=self.name,
            env_vars={},
        )
        self._results.load_data(self._folder)

    def existing(self, benchmarks: Any, kinds: Collection[str]) -> set[str]:
        """Return the benchmarks with results of these kinds: successful, failed, commits."""
        found = self._results.get_result_keys(benchmarks)
        if "commits" in kinds:
            return set(benchmarks) if found else set()
        values = {n: self._results.get_result_value(n, benchmarks[n]["params"]) for n in found}
        return {
            name
            for name, cells in values.items()
            if ("failed" if None in cells else "successful") in kinds
        }

    def write(
        self,
        benchmarks: Any,
        questions: Mapping[str, Any],
        paths: Sequence[Path],
        *,
        record_samples: bool,
        append_samples: bool,
        shown: bool = True,
    ) -> None:
        """Put the figures of these documents in the place of what was read before, and save.

        `benchmarks` are asv's, with the cells that are selected; `shown`: asv prints each. Raises
        `DocumentError`, `OSError`.
        """
        self._results.load_data(self._folder)  # Again: now nobody else writes it.
        machine = Machine()
        vars(machine).update(self._machine)
        machine.save(self._folder)
        measured: dict[str, list[documents.Document]] = {}
        for document in map(documents.read, paths):
            measured.setdefault(document.probe, []).append(document)
        cells = {experiment: cells_of(found) for experiment, found in measured.items()}
        for experiment, found in measured.items():
            self._results.set_setup_cache_duration(experiment, sum(d.seconds for d in found))
        for name, benchmark in sorted(benchmarks.items()):
            if shown:
                log.step()
                log.info(name, reserve_space=True)
            question = question_of(questions[name])
            question.cells = cells.get(question.experiment, {})
            selected = benchmarks.benchmark_selection.get(name)
            started = [d.started for d in measured.get(question.experiment, ())]
            self._results.add_result(
                benchmark,
                evaluate(questions[name], selected),
                started_at=datetime.fromisoformat(min(started)) if started else None,
                record_samples=record_samples,
                append_samples=append_samples,
                selected_idx=selected,
            )
            if shown:
                log_benchmark_result(self._results, benchmark)
        self._results.save(self._folder)
