"""The pictures of a report: what is drawn, from which rows, and how it looks."""
