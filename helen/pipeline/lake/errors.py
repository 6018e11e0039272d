"""Defines the errors with which the pipeline ends."""

from __future__ import annotations

from collections.abc import Sequence


class PipelineError(Exception):
    """Holds one or two sentences for the operator: the fault, and what to do next. Printed without a traceback."""


class StoreUnreachable(OSError):
    """Says that an object store refuses, or gives no answer. It may be over with the next try."""


class OutOfResources(OSError):
    """Says that a file could not be read for a reason that is not its own. It may be over with the next try."""


class LakeFileUnread(OSError):
    """Says that the disk or the rights of a file of the lake let it not be read. It may be over with the next try."""

    def __init__(self, path: str, sentence: str) -> None:
        super().__init__(sentence)
        self.path = path


class LakeBusy(PipelineError):
    """Says that another process is the writer."""


class LakeDamaged(PipelineError):
    """Says that the lake is not as this package left it, or is of a version that it doesn't know."""


class BadSegment(Exception):
    """Says that a segment can't be read: it is cut or corrupt, or the disk fails."""

    def __init__(self, helen: int, kind: str, number: int, path: object, reason: object) -> None:
        line = (str(reason).splitlines() or [type(reason).__name__])[0]
        super().__init__(f"{path} can't be read ({line})")
        self.helen = helen
        self.kind = kind
        self.number = number
        self.reason = line


class MissingSegments(Exception):
    """Says that numbers are missing in a history which Helen can't have deleted."""


class NoSuchSeries(Exception):
    """Says that a segment names a series that the history's list doesn't have: one of the two is not Helen's."""

    def __init__(self, where: object, unknown: Sequence[int]) -> None:
        listed = ", ".join(map(str, unknown[:5]))
        super().__init__(
            f"{where} has series {listed}, which series.parquet beside it doesn't have: restore the file from the same"
            " backup as the segments"
        )
