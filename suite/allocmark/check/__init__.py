"""Whether the memory system of each GPU is as it should be, within seconds; no framework needed."""
