"""The version of kgqa."""

__version__ = "0.3.0"
