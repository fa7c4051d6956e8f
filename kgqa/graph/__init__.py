"""Entities, edges and the stores that keep them. Knows nothing of text, tokens or models."""
