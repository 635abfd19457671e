"""What only developers run; not part of the wheel."""
