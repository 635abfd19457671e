"""A night: measure, gate within the lane, find the factor, report, history, site, summary."""
