"""What lies on each of several GPUs: modes, stray contexts, peer access, copies."""
