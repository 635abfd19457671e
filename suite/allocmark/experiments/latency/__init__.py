"""What an allocation costs: hits, misses and releases."""
