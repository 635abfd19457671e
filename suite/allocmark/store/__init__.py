"""Reads the record: one frame of figures, panels and grids of it, tables and their text."""
