"""Routes of Prometheus' query API, as far as promtool and Grafana's data source use it. docs/prometheus.rst has it.

Faults are answered in Prometheus' form. GET of `labels` is a route of Helen's own, in helen/web/routes/rows.py, and
hands over what has a parameter of Prometheus.
"""

from __future__ import annotations

from typing import Any

from helen.parts import Parts
from helen.web.answers import write_json
from helen.web.promql.asking import answer_question
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.web_parts import WebParts

routes = Routes()
SPOKEN = "2.45.0"  # the version of Prometheus whose PromQL is read, and whose API is spoken


@routes.foreign("GET POST", f"{V1}/query", "read", "Prometheus: a question at one time")
async def query(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer a question in PromQL at `time`."""
    return await answer_question(parts, request, "query")


@routes.foreign("GET POST", f"{V1}/query_range", "read", "Prometheus: a question over some time")
async def query_range(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer a question in PromQL at each `step` from `start` to `end`."""
    return await answer_question(parts, request, "query_range")


@routes.foreign("GET POST", f"{V1}/series", "read", "Prometheus: the series that fit")
async def series(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the labels of series."""
    return await answer_question(parts, request, "series")


@routes.foreign("POST", f"{V1}/labels", "read", "Prometheus: names of labels")
async def label_names(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the names of labels."""
    return await answer_question(parts, request, "labels")


@routes.foreign("GET", f"{V1}/label/<path:name>/values", "read", "Prometheus: values of one label")
async def label_values(parts: WebParts, request: ApiRequest, name: str) -> bytes:
    """Answer with the values of a label."""
    return await answer_question(parts, request, f"label/{name}/values")


@routes.foreign("GET", f"{V1}/metadata", "read", "Prometheus: types and units of metrics")
async def metadata(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the type and the unit of each metric."""
    return await answer_question(parts, request, "metadata")


@routes.foreign("GET", f"{V1}/status/buildinfo", "read", "Prometheus: the version that is spoken")
def build_info(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the version of Prometheus that is spoken, and Helen's as the revision."""
    info = {"version": SPOKEN, "revision": parts.version, "branch": "helen", "buildUser": "", "buildDate": "",
            "goVersion": ""}  # fmt: skip
    return _success(request, info)


@routes.foreign("GET POST", f"{V1}/query_exemplars", "read", "Prometheus: exemplars, of which there are none")
def exemplars(parts: Parts, request: ApiRequest) -> bytes:
    """Answer that there are no exemplars."""
    return _success(request, [])


@routes.foreign("GET", f"{V1}/rules", "read", "Prometheus: rules, of which there are none")
def rules(parts: Parts, request: ApiRequest) -> bytes:
    """Answer that there are no rules: Helen judges results by its own."""
    return _success(request, {"groups": []})


def _success(request: ApiRequest, data: Any) -> bytes:
    return write_json(request, {"status": "success", "data": data})
