"""The whole site in one folder: docs, report, asv's site of the history, and all figures as CSV."""
