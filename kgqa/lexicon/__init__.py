"""The program's English: tokens, wordings with their meaning, lemmas."""
