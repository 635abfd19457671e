"""A recorded run under every allocator setting: what fits, what it costs, what to change."""
