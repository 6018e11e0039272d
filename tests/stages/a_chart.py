"""Runs Helm itself over the chart of deploy/helm, by helm-python-sdk, in a process of its own, as it brings Go's
runtime.

The answers are those of `helm template` and `helm lint --strict`; there is no cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import yaml

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "helen-equus"
PROGRAM = """import json, sys, helm_python as helm
chart, asked = helm.Chart.load(sys.argv[1]), json.load(sys.stdin)
def render(values):
    try:
        return {"files": chart.render(values, name="mon", namespace="watch")}
    except helm.HelmError as error:
        return {"error": str(error)}
json.dump([{**render(values), "lint": helm.lint(sys.argv[1], values, strict=True)} for values in asked], sys.stdout)
"""


@attrs.frozen
class Rendered:
    """Holds what Helm makes of one set of values: objects by kind, or the error; and what lint says."""

    objects: dict[str, dict[str, Any]]
    notes: str
    error: str
    lint: dict[str, Any]


def rendered(*values: dict[str, Any]) -> list[Rendered]:
    """Return what each set of values gives, for the release `mon` in the namespace `watch`."""
    words = [sys.executable, "-c", PROGRAM, str(CHART)]
    done = subprocess.run(words, input=json.dumps(values), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [_read(answer) for answer in json.loads(done.stdout)]


def _read(answer: dict[str, Any]) -> Rendered:
    files: dict[str, str] = answer.get("files", {})
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    documents = [each for text in texts for each in yaml.safe_load_all(text) if each]
    objects = {each["kind"]: each for each in documents}
    assert len(objects) == len(documents)  # one of each kind
    notes = "".join(text for name, text in files.items() if name.endswith(".txt"))
    return Rendered(objects, notes, answer.get("error", ""), answer["lint"])
