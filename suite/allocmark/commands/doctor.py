"""``allocmark doctor``."""

from __future__ import annotations

import typer

from allocmark.commands.options import Results


def doctor(results: Results = None) -> None:
    """Say whether figures from this machine can be trusted, and what will be left out."""
    from allocmark.machine.places import results_folder
    from allocmark.measure.doctor import examine, exit_code
    from allocmark.system.printable import visible

    findings = examine(results_folder(results))
    for finding in findings:
        left_out = f" [left out: {', '.join(finding.skipped)}]" if finding.skipped else ""
        typer.echo(visible(f"{finding.level:8}{finding.check}: {finding.sentence}{left_out}"))
    raise typer.Exit(exit_code(findings))
