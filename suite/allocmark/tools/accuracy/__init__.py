"""Replays held against real runs of whole programs: peaks, and the smallest GPU memory."""
