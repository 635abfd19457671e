"""What ``suite/start.py`` does. Uses the standard library only: it runs before anything is there.

``commands`` is the entry; ``interpreter`` looks at the Python it was started with; ``environment``
makes the project's own; ``requirements`` finds what is missing in it; ``locks`` and ``installing``
bring that.
"""
