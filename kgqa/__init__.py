"""kgqa: answers from a knowledge graph, each with a path of facts that no model made up."""

__version__ = "0.1.0"
