"""Names to token ids, tries, and the index of tries on disk. Knows no models and no search."""
