"""allocmark: how GPU memory is really allocated, measured."""

__version__ = "0.1.0"
