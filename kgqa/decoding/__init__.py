"""Constrained decoding: pure search over scored edges, and the model's forward that scores them.

Knows no graphs, files or prompts: only a constraint to stay in and token ids to start from.
"""
