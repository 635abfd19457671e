"""Two recordings, or two jobs, held against each other: what changed, and by which line."""
