"""A process that tells its own counters, for `allocmark explain`: standard library only.

Nothing here imports another folder, so that `allocmark record` can load it into any interpreter.
"""
