"""Training data from questions and a KG, and the training of KG-LLMs, rankers and reasoners."""
