"""The newest run against earlier ones."""
