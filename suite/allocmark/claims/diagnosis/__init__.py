"""Claims of 3.5 and of the opening: the diagnostic rules, and what explains a failed allocation."""
