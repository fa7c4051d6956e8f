"""Training data from questions and a KG; fine-tuning a local model to write its paths."""
