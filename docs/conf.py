"""Sphinx: `sphinx-build -W docs DIR`. Plain reStructuredText with the default theme; no extension is needed."""

project = "Helen and Equus"
author = "the Helen and Equus developers"
copyright = author
extensions: list[str] = []
exclude_patterns: list[str] = []
highlight_language = "none"
html_theme = "alabaster"
