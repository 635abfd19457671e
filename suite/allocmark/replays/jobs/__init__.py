"""Recordings of several ranks of a job: one answer for all of them."""
