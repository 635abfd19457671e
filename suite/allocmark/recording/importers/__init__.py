"""Recordings that others made, read without trusting them: torch snapshots, RMM logs, traces."""
