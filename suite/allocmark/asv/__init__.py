"""Everything shaped by asv: its plugin, environments, selection, cells and derived history."""
