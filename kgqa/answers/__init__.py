"""The `Answer` of a question, and how grounded paths become ranked answers."""
