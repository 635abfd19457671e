"""What TensorFlow takes in each mode, when, and what it releases."""
