"""Methods: from a question and its topic entities to answers with grounded paths."""
