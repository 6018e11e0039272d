"""Gives Arrow the files of Azure's store by the client of `deltalake`, instead of by Arrow's own.

Arrow's empties an object when it begins to write it, so that readers of a small file find nothing for a moment, and it
ends the whole process when an answer that should be XML is none. That of `deltalake` writes an object as one, and takes
its settings from where those of the logs come.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake.fs import DeltaStorageHandler


def open_azure(url: str, options: Mapping[str, str]) -> pafs.FileSystem:
    """Return the file system of a container, whose names begin below `url`. Raises OSError."""
    return pafs.PyFileSystem(_Handler(url, dict(options)))


class _Handler(DeltaStorageHandler):  # type: ignore[misc,unused-ignore]
    """Mends the parts of `deltalake`'s handler that Arrow can't use."""

    def open_output_stream(self, path: str, metadata: Mapping[str, str] | None = None) -> pa.PythonFile:
        return pa.PythonFile(_Stream(self._handler.open_output_stream(path, {})), mode="w")

    def copy_file(self, src: str, dst: str) -> None:
        self._handler.copy_file(src, dst)


class _Stream(io.RawIOBase):
    """Takes buffers, where the stream of `deltalake` takes bytes alone."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return int(self._stream.write(bytes(data)) or len(data))

    def flush(self) -> None:
        """Do nothing: an object is there when it is closed."""

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
