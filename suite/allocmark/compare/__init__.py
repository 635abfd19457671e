"""Two stacks, files or folders compared figure by figure; no framework, no GPU."""
