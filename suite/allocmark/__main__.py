"""``python -m allocmark``, and the command of that name."""

from __future__ import annotations

from allocmark.system.stopping import until_stopped


def main() -> int:
    """Run the command line; Ctrl-C while it is being imported is a sentence like any other."""
    return until_stopped(_run)


def _run() -> int:
    from allocmark.commands.app import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
