"""What the pipeline says when it can't go on."""

from __future__ import annotations


class PipelineError(Exception):
    """One or two sentences for the operator: what is wrong, and what to do next. Printed without a traceback."""


class LakeBusy(PipelineError):
    """Another process is the writer."""
