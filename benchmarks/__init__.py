"""The questions of the suite, one file each, as thin asv classes: axes, units, which probe answers.

They measure nothing. `setup_cache` runs the experiment (or takes over what the run has of it) and
each parameter combination reads one cell. Versions are set by hand: raise one when the meaning of
its figures changes, and only then.
"""
