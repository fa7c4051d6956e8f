"""Parses a question once: into canonical wording, then into a value that all methods use."""
