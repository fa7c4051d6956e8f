"""The version of kgqa."""

__version__ = "0.1.0"
