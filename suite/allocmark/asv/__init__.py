"""What asv reads of a run: benchmark classes over documents, result files, the derived history."""
