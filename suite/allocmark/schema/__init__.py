"""What the record may say: documents, figures and their intervals, the state of a run."""
