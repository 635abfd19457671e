"""Which way requests take through torch's allocator, and the copy at its end."""
