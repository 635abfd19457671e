"""The tests: folders as in suite/allocmark/, what they share in support/."""
