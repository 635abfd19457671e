"""Whether a framework can use the GPU: tried once, in a process of its own, by its interpreter.

A framework that cannot has no stack. What needs it is then not measured, and says what the trial
found, so that nobody waits for a hundred processes to fail alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from allocmark.allocators import registry
from allocmark.allocators.tensorflow_gpu import GROWTH
from allocmark.allocators.torch_caching import NATIVE
from allocmark.experiments.core.launcher import child_environment, ending
from allocmark.experiments.core.recorder import in_words
from allocmark.experiments.core.request import Request
from allocmark.machine import frameworks
from allocmark.system import interpreters
from allocmark.system.errors import NotMeasurableError

_ALLOCATORS = {"torch": NATIVE, "tensorflow": GROWTH}
"""Neither takes memory before a first request."""
_LIMIT_S = 180.0


def leave_out_unusable() -> dict[str, str]:
    """Leave the tracked frameworks that are absent or cannot use the GPU out of this run.

    Returns why, by framework. One stays in any case, so that every cell has a place for its reason;
    where but one is installed it is not tried.
    """
    absent = {name: frameworks.why_absent(name) for name in frameworks.TRACKED}
    present = [name for name, reason in absent.items() if reason is None]
    with ThreadPoolExecutor() as pool:  # Each waits for an import of seconds.
        tried = dict(zip(present, pool.map(why_not, present), strict=True)) if present[1:] else {}
    reasons = {name: reason for name, reason in {**absent, **tried}.items() if reason}
    stays = [name for name in frameworks.TRACKED if name not in reasons] or present[-1:]
    for name in set(reasons) - set(stays or frameworks.TRACKED[:1]):
        interpreters.leave_out(name, reasons[name])
    return {name: reason for name, reason in reasons.items() if interpreters.left_out(name)}


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
