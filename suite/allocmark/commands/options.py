"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Results = Annotated[
    Path | None,
    typer.Option(
        help="The results folder (default: results of the project; on the emulated driver its "
        "build/emulated/results)."
    ),
]
Thresholds = Annotated[Path | None, typer.Option(help="Rules of your own, before the suite's.")]
Recordings = Annotated[
    list[Path],
    typer.Argument(
        help="A torch snapshot, an RMM log or a trace; of a job all ranks', or a folder."
    ),
]
Recording = Annotated[Path, typer.Argument(help="A torch snapshot, an RMM log or a trace.")]
Device = Annotated[int | None, typer.Option(help="Device of a recording of several.")]
