"""The bridge between asv's benchmarks and the suite: one experiment in, a folder of cells out.

The plugin says in the environment what the benchmarks of one run share; a benchmark that is run
without it measures in full, into the project's results.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection
from pathlib import Path

from allocmark.allocators import registry
from allocmark.asv.cells import write_cells
from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import PROFILES
from allocmark.machine import frameworks
from allocmark.machine.places import results_of
from allocmark.machine.stack import read_stack
from allocmark.measure.session import Session, folder_of, measure_experiments
from allocmark.measure.stopping import stoppable
from allocmark.schema import run_state
from allocmark.system.errors import AllocmarkError, of_system, user_message
from allocmark.system.lifetime import end_with_parent
from allocmark.system.progress import shown

FRAMEWORK = "ALLOCMARK_FRAMEWORK"
"""The framework of the stack that is measured, in a run that fills several."""
RESULTS = "ALLOCMARK_RESULTS"
"""The results folder, absolute."""
PROFILE = "ALLOCMARK_PROFILE"
RUN = "ALLOCMARK_RUN"
"""The id of the run that the plugin has begun."""
FRESH = "ALLOCMARK_FRESH"
"""Set: begin a run instead of carrying on one that was cut off."""


def measure_cells(experiment_name: str, metrics: Collection[str], project: Path) -> str:
    """Measure an experiment, or take over what this run has of it; return the folder of its cells.

    Errors become one sentence and an exit code: asv's plugin passes both on.
    """
    end_with_parent(signal.SIGTERM)
    try:
        with stoppable(), shown() as progress:
            results = Path(os.environ.get(RESULTS) or results_of(project))
            profile = PROFILES[os.environ.get(PROFILE, "full")]
            share = frameworks.share(os.environ.get(FRAMEWORK))
            stack = read_stack(share.framework, 0)
            run = os.environ.get(RUN) or run_state.join(folder_of(results, stack, profile)).id
            session = Session(results, stack, profile, run, progress, share=share)
            experiment = catalog.experiment(experiment_name)
            paths = list(measure_experiments(session, [experiment], list(registry().values())))
            cells = Path.cwd() / "cells"
            write_cells(cells, paths, metrics)
            return str(cells)
    except (AllocmarkError, OSError) as error:
        told = of_system(error) if isinstance(error, OSError) else error
        if told is None:
            raise
        print(user_message(told), file=sys.stderr)
        raise SystemExit(told.exit_code) from error
