"""From a question to its topic entities, and from what a user typed to one entity."""
