"""Errors, processes, signals, compilers, units: what knows nothing of GPUs."""
