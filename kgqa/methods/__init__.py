"""From a question and its topic entities to answers with grounded paths; one module a method."""
