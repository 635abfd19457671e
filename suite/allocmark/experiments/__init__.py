"""The experiments, a folder for each question, and the program that their processes run."""
