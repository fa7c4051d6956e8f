"""The English of the program: tokens, the words that say how a question is meant, lemmas."""
