"""The stages of a load: find the dump, read it, put it together, write it."""
