"""A browser for tests of the page: Debian's Chromium, or none with the reason."""

from __future__ import annotations

import shutil

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def browser_path() -> str | None:
    """Return the first browser on PATH that the tests can drive."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


NO_BROWSER = f"no browser here ({', '.join(_NAMES)}): apt-get install chromium"
