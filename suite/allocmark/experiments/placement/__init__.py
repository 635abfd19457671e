"""Which hole an allocator takes, and when freed neighbours become one."""
