"""Runs of many machines of one kind: which of them is the odd one among equals."""
