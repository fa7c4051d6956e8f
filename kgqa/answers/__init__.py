"""`Answer`, and how paths become ranked answers."""
