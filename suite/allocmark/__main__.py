"""``python -m allocmark``."""

from allocmark.cli import main

raise SystemExit(main())
