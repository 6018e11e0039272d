"""Runs a real Prometheus with samples of our choice, by `promtool tsdb create-blocks-from openmetrics`."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from real_peers import Peer, program
from remotes import wait_for

Series = tuple[Mapping[str, str], list[tuple[float, float]]]  # labels with __name__; unix seconds and values
# Twenty days, as Prometheus itself joins its blocks in time. promtool reads the whole text anew for each block that it
# makes, and those of two hours would be 360 for a month.
BLOCKS = "--max-block-duration=486h"


class Prometheus:
    """Has series, and answers questions about them."""

    def __init__(self, folder: Path, series: Iterable[Series], patience: float = 60.0) -> None:
        (folder / "empty.yml").write_text("")
        (folder / "series.txt").write_text(exposition(series))
        make = "tsdb", "create-blocks-from", BLOCKS, "openmetrics", "series.txt", "data"
        words = [program("promtool", "prometheus"), *make]
        subprocess.run(words, check=True, capture_output=True, cwd=folder, timeout=patience)
        self.peer = Peer(folder, [
            program("prometheus", "prometheus"), "--config.file=empty.yml", "--storage.tsdb.path=data",
            "--web.listen-address=127.0.0.1:0", "--storage.tsdb.retention.time=99y", "--query.max-samples=50000000",
        ])  # fmt: skip
        try:
            wait_for(self._is_ready, "Prometheus")
        except AssertionError:
            self.end()
            raise

    def ask(self, path: str, **given: Any) -> Any:
        """Return the answer of /api/v1/PATH as plain data, whatever its status."""
        body = urllib.parse.urlencode(given, doseq=True).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.peer.port}/api/v1/{path}", body)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def end(self) -> None:
        self.peer.end()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.peer.port}/-/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def exposition(series: Iterable[Series]) -> str:
    """Return the text of OpenMetrics for these series, family by family."""
    families: dict[str, list[str]] = {}
    for labels, samples in series:
        inside = ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items() if key != "__name__")
        head = f"{labels['__name__']}{{{inside}}}"
        families.setdefault(labels["__name__"], []).extend(f"{head} {value!r} {at:.3f}" for at, value in samples)
    lines = [line for name, rows in families.items() for line in (f"# TYPE {name} unknown", *rows)]
    return "\n".join([*lines, "# EOF"]) + "\n"
