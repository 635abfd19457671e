"""What a running process does with GPU memory: its counters, what was measured, the rules."""
