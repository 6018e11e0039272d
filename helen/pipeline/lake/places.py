"""Reads and writes files of the lake, on a file system or in an object store.

A place in an object store is a path like any other, `s3:/BUCKET/KEY`: pathlib folds the second slash of the URL.
Functions for names alone work on both. Each access to a file goes through this module. A file system is asked to sync,
and files are renamed there; a store has a file whole or not at all, and needs neither. stores.py opens them.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from groundwork.atomic_write import PUBLIC, sync_file, sync_folder, write_durably
from helen.pipeline.lake.stores import filesystem, is_stored, url_of

# ------------------------------------------------------------------------------------------------ Parquet


def parquet_writer(path: Path, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    """Open a new Parquet file; its folder is made. Raises OSError."""
    make_folder(path.parent)
    store, name = filesystem(path) if is_stored(path) else (None, str(path))
    return pq.ParquetWriter(name, schema, filesystem=store, **options)


def parquet_file(path: Path | str) -> pq.ParquetFile:
    """Open a Parquet file to read it; it is a context manager. Raises OSError."""
    store, name = filesystem(path) if is_stored(path) else (None, str(path))
    return pq.ParquetFile(name, filesystem=store)


def read_columns(path: Path | str, columns: Sequence[str]) -> pa.Table:
    """Return columns of a Parquet file. Raises OSError."""
    with parquet_file(path) as opened:
        return opened.read(list(columns))


def metadata_of(path: Path | str) -> pq.FileMetaData:
    """Return the footer of a Parquet file. Raises OSError."""
    with parquet_file(path) as opened:
        return opened.metadata


# ------------------------------------------------------------------------------------------------ Arrow's files


def write_arrow(path: Path, rows: pa.Table) -> None:
    """Write rows in Arrow's own format, which is quick to write and read; the folder is made. Raises OSError."""
    make_folder(path.parent)
    store, name = filesystem(path)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with store.open_output_stream(name) as out, pa.ipc.new_file(out, rows.schema, options=options) as writer:
        writer.write_table(rows)


# ------------------------------------------------------------------------------------------------ files


def make_folder(path: Path) -> None:
    """Make a folder and those above it; a store has none. Raises OSError."""
    if not is_stored(path):
        path.mkdir(parents=True, exist_ok=True)


def move(source: Path, target: Path) -> None:
    """Move a file, durably but for the name's folder: call `sync`. Raises OSError."""
    if is_stored(source):
        store, name = filesystem(source)
        store.copy_file(name, filesystem(target)[1])  # the copy that is left is staged: it is swept
        return
    sync_file(source)  # Spark never does
    source.rename(target)


def sync(folder: Path) -> None:
    """Make the names in a folder durable; those in a store are. Raises OSError."""
    if not is_stored(folder):
        sync_folder(folder)


def size_of(path: Path) -> int:
    """Return the bytes of a file. Raises OSError."""
    store, name = filesystem(path)
    found = store.get_file_info(name)
    if found.size is None:
        raise FileNotFoundError(f"{url_of(path)} is not there")
    return int(found.size)


def missing_of(paths: Sequence[Path]) -> list[Path]:
    """Return those of these files that aren't there. Raises OSError."""
    if not paths:
        return []
    store = filesystem(paths[0])[0]
    infos = store.get_file_info([filesystem(path)[1] for path in paths])
    return [path for path, info in zip(paths, infos, strict=True) if info.type != pafs.FileType.File]


def files_below(folder: Path, suffix: str, recursive: bool = False) -> Iterator[Path]:
    """Yield the files of a folder whose names end so; none where it is missing. Raises OSError."""
    store, name = filesystem(folder)
    selector = pafs.FileSelector(name, allow_not_found=True, recursive=recursive)
    for info in store.get_file_info(selector):
        if info.type == pafs.FileType.File and info.path.endswith(suffix):
            yield folder / info.path[len(name) :].lstrip("/")


def names_in(folder: Path) -> set[str]:
    """Return the names of the files and folders in a folder; none where it is missing. Raises OSError.

    A store has no empty folder; a file system may.
    """
    store, name = filesystem(folder)
    return {info.base_name for info in store.get_file_info(pafs.FileSelector(name, allow_not_found=True))}


def remove_empty(folder: Path) -> None:
    """Delete a folder if nothing is in it; else, and in a store, nothing happens."""
    if not is_stored(folder):
        with contextlib.suppress(OSError):
            folder.rmdir()


def remove_tree(folder: Path) -> None:
    """Delete a folder with all that is in it, as far as it can be."""
    if not is_stored(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return
    try:
        store, name = filesystem(folder)
        store.delete_dir(name)
    except OSError:  # it isn't there, or it is swept some other time
        return


def read_bytes(path: Path) -> bytes:
    """Return the content of a small file. Raises OSError, FileNotFoundError among them."""
    store, name = filesystem(path)
    with store.open_input_stream(name) as opened:
        return bytes(opened.read())


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a small file whole, durably; anybody may read it. Raises OSError."""
    if not is_stored(path):
        write_durably(path, data, PUBLIC)
        return
    store, name = filesystem(path)
    with store.open_output_stream(name) as opened:
        opened.write(data)
