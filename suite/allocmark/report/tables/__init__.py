"""One module for each part of the page: pure functions from a panel to tables."""
