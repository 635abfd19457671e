"""Claims of 3.2: PyTorch's cache, what its counters show, the three traits of its strategy."""
