"""What a CUDA context costs, what creates one, and what N processes cost."""
