"""The questions of the suite, one file each, as thin asv classes: axes, units, which answers.

They measure nothing: each parameter combination reads one cell of the documents of a run. Versions
are set by hand: raise one when the meaning of its figures changes, and only then.
"""
