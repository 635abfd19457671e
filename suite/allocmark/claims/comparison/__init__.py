"""Claims of the table of TensorFlow against PyTorch: four rows, each judged by halves."""
