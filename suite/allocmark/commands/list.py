"""``allocmark list``."""

from __future__ import annotations

import typer


def show_names() -> None:
    """Name the experiments with the profiles that have them, the allocators and the workloads."""
    from allocmark.allocators import registry
    from allocmark.experiments import catalog as experiments
    from allocmark.workloads import catalog

    groups = {
        "experiments": [
            f"{each.name} ({', '.join(experiments.profiles_of(each))})"
            for each in experiments.in_suite()
        ],
        "allocators": list(registry()),
        "workloads": list(catalog.names()),
    }
    for title, names in groups.items():
        typer.echo(f"{title}:\n  " + "\n  ".join(names))
