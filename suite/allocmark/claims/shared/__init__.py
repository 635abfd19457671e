"""Rows of the store that several claims rest on, and indicators as predictors."""
