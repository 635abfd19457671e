"""What an allocator holds beyond what a workload asks for."""
