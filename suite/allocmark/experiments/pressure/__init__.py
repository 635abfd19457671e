"""What the counters show, and what comes before an OOM."""
