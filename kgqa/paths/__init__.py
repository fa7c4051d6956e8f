"""Paths as ids: walking, mediators, shortest paths, grounding; and a path as text."""
