"""Sets up what is missing and starts: ``python3 suite/start.py run``, ``test`` or ``lint``.

Works in a fresh clone with nothing but Python, git and a C compiler. Everything that it makes lies
in ``build/``. It parses under any Python, 2 too, so that an old one gets a sentence.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - an older one is turned away here
    sys.exit(
        "allocmark needs Python 3.11 or later and this is %s: "  # noqa: UP031 - Python 2 has no other
        "start it with a later one, as in `python3.12 suite/start.py run`" % sys.version.split()[0]
    )

from starter.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
