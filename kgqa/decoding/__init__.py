"""Constrained decoding: searches over scored moves, and the model's forward passes that score them.

The searches (``beam``, ``diverse``, ``best_first``, ``stochastic``) are generators as ``search``
defines them; ``engine`` runs them, ``generate`` fits constraints to Hugging Face.
"""
