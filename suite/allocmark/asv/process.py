"""asv as ``allocmark run`` starts it: Ctrl-C ends it without a traceback.

Once the plugin is there it says what is saved. Before, nothing is measured, and the parent says so.
"""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def main() -> int:
    """Run asv's command line."""
    try:
        from asv.main import main as run

        sys.argv[0] = "asv"
        run()
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
