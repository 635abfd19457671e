"""Records the GPU memory of an unmodified program: history on, snapshot at OOM, exit or signal."""
