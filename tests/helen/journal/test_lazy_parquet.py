"""Test that Arrow has everything it imports before agents are served."""

from __future__ import annotations

import subprocess
import sys

import pytest

from helen.journal import lazy_parquet

SCRIPT = """
import builtins, sys
from helen.journal import lazy_parquet

lazy_parquet.load()
imported, real = [], builtins.__import__

def watched(name, *more):
    if name.partition(".")[0] not in {module.partition(".")[0] for module in sys.modules}:
        imported.append(name)
    return real(name, *more)

builtins.__import__ = watched
import pyarrow as pa

pa.array([1, None]), pa.array(["a"], pa.string()), pa.array([{"a": 1}])
lazy_parquet.write_table(pa.table({"a": [1]}), "/dev/null")
builtins.__import__ = real
before = "pandas" in sys.modules
print(imported, "pandas" in sys.modules, pa.lib._pandas_api.have_pandas, before)
"""


def test_arrays_import_nothing_later() -> None:
    """After `load` no array imports anything: a process without descriptors could not."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "True", "True", "True"]


def test_a_name_that_is_not_listed() -> None:
    """A name that the module doesn't list is refused, so that nobody imports Parquet by a slip."""
    with pytest.raises(AttributeError, match="has no 'read_all': its NAMES are ParquetFile, "):
        getattr(lazy_parquet, "read_all")  # noqa: B009
