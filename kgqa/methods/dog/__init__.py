"""Decoding on Graphs: thoughts in free text, triplets from the graph."""
