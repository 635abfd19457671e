"""``allocmark check``."""

from __future__ import annotations

from typing import Annotated

import typer

from allocmark.commands.options import Results


def check(
    results: Results = None,
    format: Annotated[str, typer.Option(help="text, or json: with what is fine, too.")] = "text",
) -> None:
    """Say within seconds whether the memory of each GPU is as it should be; quiet where it is.

    Exit code 0: healthy; 1: a fault; 2: no GPU can be asked; 3: unclear, somebody else uses it.
    """
    import json

    from allocmark.check.checking import check as check_gpus
    from allocmark.check.finding import exit_code
    from allocmark.machine.places import results_folders
    from allocmark.system.errors import lookup
    from allocmark.system.printable import visible

    as_json = lookup("format", format, {"text": False, "json": True})
    findings = check_gpus(results_folders(results))
    code = exit_code(findings)
    if as_json:
        told = {"exit_code": code, "findings": [finding.to_json() for finding in findings]}
        typer.echo(json.dumps(told, indent=2))
    else:
        for finding in findings:
            if finding.level not in ("fine", "note"):
                gpu = "" if finding.gpu is None else f"GPU {finding.gpu}: "
                typer.echo(visible(f"{finding.level}: {gpu}{finding.check}: {finding.reason}"))
    raise typer.Exit(code)
