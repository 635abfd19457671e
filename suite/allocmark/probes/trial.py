"""Whether a framework can use the GPU: tried once, in a process of its own, by its interpreter.

A framework that cannot has no stack. What needs it is then not measured, and says what the trial
found, so that nobody waits for a hundred processes to fail alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from allocmark import frameworks, interpreters
from allocmark.allocators import registry
from allocmark.errors import NotMeasurableError
from allocmark.probes.launcher import child_environment, ending
from allocmark.probes.replaying import in_words
from allocmark.probes.request import Request

_ALLOCATORS = {"torch": "torch-native", "tensorflow": "tf-growth"}
"""Neither takes memory before it is asked to."""
_LIMIT_S = 180.0


def leave_out_unusable() -> dict[str, str]:
    """Leave the tracked frameworks that are absent or cannot use the GPU out of this run.

    Returns why, by framework. The last that is found is not tried, and where none is found none is
    left out: their cells have the reasons.
    """
    reasons: dict[str, str] = {}
    for framework in frameworks.TRACKED:
        reason = frameworks.why_absent(framework)
        if reason is None and len(frameworks.found()) > 1:
            reason = why_not(framework)
        if reason is not None and frameworks.found() != (framework,):
            reasons[framework] = reason
            interpreters.leave_out(framework, reason)
    return reasons


def why_not(framework: str, device: int = 0) -> str | None:
    """Return why a framework cannot use the GPU, None where it can. Takes seconds."""
    allocator = registry()[_ALLOCATORS[framework]]
    request = Request("", allocator.name, _LIMIT_S, {}, dict(allocator.environment), framework)
    try:
        done = subprocess.run(
            interpreters.command(framework, __name__, [allocator.name, str(device)]),
            env=child_environment(request),
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except OSError as error:
        return f"{interpreters.interpreter(framework)} cannot be started ({error.strerror})"
    except subprocess.TimeoutExpired:
        return f"it did not answer in {_LIMIT_S:.0f} s"
    try:
        reason: str | None = json.loads(done.stdout.splitlines()[-1])["reason"]
    except (ValueError, LookupError, TypeError):
        return ending(done.returncode, done.stderr.decode(errors="replace"))
    return reason


def main(name: str, device: int) -> None:
    """In the framework's interpreter: open the allocator and print what came of it."""
    reason = None
    try:
        registry()[name].open(device)
    except NotMeasurableError as error:
        reason = str(error)
    except Exception as error:
        reason = in_words(error)
    print(json.dumps({"reason": reason}), flush=True)
    os._exit(0)  # Destructors of frameworks may hang; all is said.


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
