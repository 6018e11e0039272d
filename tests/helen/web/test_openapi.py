"""Tests the OpenAPI document: one operation of every route, and answers as described."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from helen_running import Running, pulse, wait_until
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from web_client import Web, ask

from helen.web.openapi import build, path_of
from helen.web.routes.registry import ROUTES

DOCUMENT = build(ROUTES, "0")
# Of each operation: some 500 requests in all. By hand: HELEN_FUZZ_EXAMPLES=60 (docs/security.rst, case 66).
EXAMPLES = int(os.environ.get("HELEN_FUZZ_EXAMPLES", "5"))


def test_the_document() -> None:
    """Each route has one operation with its own name, known references, its scope, and dry runs for writes."""
    operations = [each for path in DOCUMENT["paths"].values() for each in path.values()]
    assert len(operations) == len(ROUTES)
    assert len({each["operationId"] for each in operations}) == len(operations)
    known = set(DOCUMENT["components"]["schemas"])
    assert set(re.findall(r"#/components/schemas/(\w+)", str(DOCUMENT))) <= known
    for route in ROUTES:
        operation = DOCUMENT["paths"][path_of(route)][route.method.lower()]
        given = {each["name"] for each in operation.get("parameters", ())}
        assert operation["x-scope"] == route.scope
        if not route.is_foreign:
            assert ("dry_run" in given) == route.is_write
            assert ("Idempotency-Key" in given) == (route.method == "POST" and not route.streams)


def test_components_have_the_names_that_clients_know() -> None:
    """Components have names without the code's suffix, and a body's field says the values that it takes."""
    schemas = DOCUMENT["components"]["schemas"]
    assert {"Agent", "State", "Window", "Job", "Problem", "Event", "WouldAsk"} <= schemas.keys()
    assert [name for name in schemas if name.endswith("Json")] == []
    assert schemas["AskCheck"]["properties"]["on"]["anyOf"][0] == {"type": "string"}
    assert schemas["MakeJoinToken"]["properties"]["ttl"]["default"] == 3600.0


def test_the_document_is_openapi() -> None:
    """The document fits the schema of OpenAPI 3.1, as schemathesis checks it."""
    assert schemathesis.openapi.from_dict(DOCUMENT).statistic.operations.total == len(ROUTES)


# ---------------------------------------------------------------------------------------------- a real one

STREAMS = {route.path for route in ROUTES if route.streams}
# What would end the tests' own way in, or what a name of somebody else's decides.
LEFT_OUT = {"/api/v1/keys", "/api/v1/agents/<name>/forget"}
TESTED = [
    route for route in ROUTES
    if not route.is_foreign and route.path not in STREAMS and not (route.is_write and route.path in LEFT_OUT)
]  # fmt: skip
SPEC = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """Provide a Helen for these tests alone, which push, revoke and assign at random."""
    folder = tmp_path_factory.mktemp("openapi")
    (folder / "checks").mkdir()
    (folder / "checks" / "pulse.lua").write_text(pulse())
    helen = Running(folder).up()
    agent = helen.agent("web-1")
    try:
        wait_until(lambda: helen.client.get("/api/v1/results")["results"], "result")
        ask(helen, "POST", "/api/v1/windows", {"kind": "silence", "id": "held", "agents": ["x"], "until": 3e9})
        yield Web(helen)
    finally:
        agent.end()
        helen.end()


@pytest.mark.adversary(66)
@pytest.mark.integration
@pytest.mark.parametrize("route", TESTED, ids=lambda route: f"{route.method} {route.path}")
def test_answers_are_as_described(living: Web, route: Any) -> None:
    """Each route answers generated requests with a described status and form, without 5xx."""
    operation = SPEC[path_of(route)][route.method]
    checks = [CHECKS.get_one(name) for name in (
        "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"
    )]  # fmt: skip

    strategy = operation.as_strategy(GenerationMode.POSITIVE) | operation.as_strategy(GenerationMode.NEGATIVE)

    @settings(
        max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=strategy)
    def asked(case: Any) -> None:
        case.call_and_validate(
            base_url=f"http://{living.host}:{living.port}", headers={"authorization": f"Bearer {living.token}"},
            checks=checks,
        )  # fmt: skip

    asked()
