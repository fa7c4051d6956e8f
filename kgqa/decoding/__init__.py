"""Constrained decoding: pure searches over scored moves, and the model's forward that scores them.

The searches (``beam``, ``diverse``, ``best_first``, ``stochastic``) are generators on the seam in
``search``; ``generate`` fits constraints to Hugging Face. Knows no graphs, files or prompts: only a
constraint to stay in and token ids to start from.
"""
