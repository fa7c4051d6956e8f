"""Constrained decoding: searches over scored moves, and the forward passes that score them."""
