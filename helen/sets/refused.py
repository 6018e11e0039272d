"""Declare the error of a set of checks that can't be used."""

from __future__ import annotations


class SetRefused(Exception):
    """Reports a set that is not taken; the text is a sentence that says why, and what to do. Nothing was written."""
