"""Candidate plans for a question, from a schema, its stored values and the question's words."""
