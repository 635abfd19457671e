"""Runs of the suite: the session that measures, its outcome, the check beforehand."""
