"""Claims of 3.1: that a context takes memory, how much, why, and who creates one."""
