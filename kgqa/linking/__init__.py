"""Entity linking: from a question to its topic entities, from typed text to one entity."""
