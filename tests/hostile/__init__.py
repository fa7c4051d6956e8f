"""Graphs that are out to deceive, and a reader of their source that shares no code with kgqa."""
