"""The version of kgqa."""

__version__ = "0.2.0"
