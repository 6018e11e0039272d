"""What the pipeline says when it can't go on."""

from __future__ import annotations

from collections.abc import Sequence


class PipelineError(Exception):
    """One or two sentences for the operator: what is wrong, and what to do next. Printed without a traceback."""


class LakeBusy(PipelineError):
    """Another process is the writer."""


class NoSuchSeries(Exception):
    """A segment that names what the history's list of series doesn't have: one of the two is not Helen's."""

    def __init__(self, where: object, unknown: Sequence[int]) -> None:
        listed = ", ".join(map(str, unknown[:5]))
        super().__init__(
            f"{where} has series {listed}, which series.parquet beside it doesn't have: restore the file from the same"
            " backup as the segments"
        )
