"""Tests the launcher that Spark starts instead of Python: it changes the path, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from helen.pipeline.workers import worker_python


def test_the_zip_of_pyspark_is_left_out(tmp_path: Path) -> None:
    """The launcher leaves pyspark's zip out of the path, keeps other folders in order, and passes each word on."""
    launcher = worker_python("local[2]", tmp_path / "it's here")
    zips = "/opt/pyspark/python/lib/pyspark.zip:/opt/pyspark/python/lib/py4j-0.10-src.zip"
    code = "import json, os, sys; print(json.dumps([os.environ['PYTHONPATH'], sys.executable, sys.argv[1:]]))"
    said = [
        json.loads(subprocess.run([launcher, "-c", code, "a b", "*", ""], capture_output=True, text=True, check=True,
                                  env=os.environ | {"PYTHONPATH": path}).stdout)
        for path in (f"{zips}:/a b:/c", f"/x/{zips}/y", "")
    ]  # fmt: skip
    words = ["a b", "*", ""]
    assert said == [["/a b:/c", sys.executable, words], [f"/x/{zips}/y".split(":", 1)[1], sys.executable, words],
                    ["", sys.executable, words]]  # fmt: skip


def test_a_cluster_has_its_own_python(tmp_path: Path) -> None:
    """A remote cluster uses its own Python, since no file of this machine lies there."""
    assert worker_python("spark://host:7077", tmp_path) == Path(sys.executable)
    assert list(tmp_path.iterdir()) == []
    assert worker_python("spark://127.0.0.1:7077", tmp_path) == tmp_path / "python"
