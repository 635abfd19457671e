"""What several experiments use: replays, ballast, block maps, searches."""
