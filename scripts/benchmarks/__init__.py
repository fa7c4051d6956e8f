"""What the benchmark scripts share, and the rows of the longer ones."""
