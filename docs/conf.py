"""Settings of the documentation site; ``scripts/docs`` builds it."""

from kgqa.version import __version__

project = "kgqa"
author = "The kgqa authors"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
nitpicky = False  # types of docstrings name what readers need not look up

myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"kgqa {release}"
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
