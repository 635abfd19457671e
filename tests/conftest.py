"""What holds for every test: nothing of the user's reaches it, and hypothesis repeats in CI."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

from allocmark.system import interpreters
from tests.support import budgets

# Two busy cores make single examples slow now and then: time is not what these tests are about.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

_OURS = ("ALLOCMARK_EMULATOR_CONFIG", "ALLOCMARK_GOLDEN", budgets.VARIABLE)

# Under nohup, or in the background of a script, SIGINT is ignored, by all that tests start too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _nothing_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep settings of the one who runs the tests from deciding about them."""
    for name in list(os.environ):
        if name.startswith(("ALLOCMARK_", "PYTORCH_")) and name not in _OURS:
            monkeypatch.delenv(name)
    if interpreters.named("tensorflow"):  # Made by start.py beside the environment of the tests.
        monkeypatch.setenv(interpreters.variable("tensorflow"), "")
