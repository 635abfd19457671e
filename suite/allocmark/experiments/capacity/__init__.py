"""The smallest capacity in which a workload completes."""
