"""Why memory ran out, or what the peak was made of: one moment of an allocator, taken apart."""
