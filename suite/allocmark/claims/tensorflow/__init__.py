"""Claims of 3.3: what TensorFlow takes in each of its modes, and two models on one machine."""
