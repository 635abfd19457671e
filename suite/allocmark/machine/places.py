"""Where results and reports lie: the record, and apart from it what the emulated driver gives."""

from __future__ import annotations

from pathlib import Path

from allocmark.machine.emulated import is_emulated

CONFIG = "asv.conf.json"
"""A folder that holds it is a project."""
RECORD, _REPORTS = "results", "reports"
"""Below the project: what was measured on GPUs, tracked by git."""
EMULATED_RESULTS = ("build", "emulated", "results")
"""Below the project, ignored by git: a first look leaves a clone as it was."""


def results_of(project: Path) -> Path:
    """Return the results folder of a project: emulated results enter the record if asked to only.

    Which one it is follows from the driver of this process.
    """
    return project.joinpath(*EMULATED_RESULTS) if is_emulated() else project / RECORD


def results_folder(given: Path | None) -> Path:
    """Return the results folder: the given one, the project's, or one here."""
    project = found_project()
    return straight(given or (results_of(project) if project else Path.cwd() / RECORD))


def results_folders(given: Path | None) -> tuple[Path, ...]:
    """Return every folder with results of this machine: the given one alone if there is one.

    What was measured on the emulated driver may lie in either of the project's two.
    """
    if given:
        return (straight(given),)
    project = straight(found_project() or Path.cwd())
    return project / RECORD, project.joinpath(*EMULATED_RESULTS)


def reports_beside(results: Path) -> Path:
    """Return where the report of a results folder goes: beside it, and named after it.

    Another folder than `RECORD` does not write over that one's report.
    """
    folder = straight(results)
    name = _REPORTS if folder.name in (RECORD, "") else f"{folder.name}-{_REPORTS}"
    return folder.parent / name


def straight(path: Path) -> Path:
    """Return the absolute path without ``..``, so that its parent is that of the folder it names.

    ``..`` leads where the system would go; links after the last one keep their names.
    """
    parts = path.absolute().parts
    if ".." not in parts:
        return Path(*parts)
    after = len(parts) - parts[::-1].index("..")
    return Path(*parts[:after]).resolve().joinpath(*parts[after:])


def found_project() -> Path | None:
    """Return the folder with asv's configuration: this one or the nearest above."""
    here = Path.cwd()
    return next((f for f in (here, *here.parents) if (f / CONFIG).is_file()), None)
