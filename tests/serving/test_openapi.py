"""The OpenAPI document is complete, and requests made from it, right and wrong, end in no defect (schemathesis)."""

from __future__ import annotations

import warnings
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from nasheval.serving.bodies import CompareRequest, FeedbackRequest, ForgetRequest, RouteRequest
from nasheval.serving.keys import new_key
from nasheval.serving.scopes import OPEN, ROUTES, scope_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    schemathesis = pytest.importorskip("schemathesis", reason="makes requests from the document")

BODIES = {
    "/v1/route": RouteRequest,
    "/v1/compare": CompareRequest,
    "/v1/feedback": FeedbackRequest,
    "/v1/forget": ForgetRequest,
}


def test_the_document_has_every_route_with_its_answers_errors_and_key(client):
    document = client.get("/openapi.json").json()
    assert {*document["paths"], "/openapi.json"} == {*ROUTES}
    for path, methods in document["paths"].items():
        for about in methods.values():
            assert about["summary"]
            assert bool(about["security"]) == (scope_of(path) != OPEN)
            errors = {code for code in about["responses"] if code >= "400"}
            assert errors >= {"401", "403", "429", "500", "503"}
            for code in errors:
                schema = about["responses"][code]["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorAnswer"}
    for path, body in BODIES.items():
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert {*schema["properties"]} == {*body.model_fields}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_request_made_from_the_document_ends_in_a_defect(served, tmp_path):
    path = tmp_path / "keys.toml"
    headers = {"authorization": f"Bearer {new_key(path, 'all', ['route', 'vote', 'admin'])}"}
    client = served(keys=str(path))
    document = client.get("/openapi.json", headers=headers).json()
    schema = schemathesis.openapi.from_dict(document)
    seen = {}
    # As many answers of the right shape as come up, and never a 5xx.
    for operation in schema.get_all_operations():
        for mode in schemathesis.GenerationMode:
            with suppress(Unsatisfiable):  # there is nothing wrong to ask of a route without arguments
                _ask(client, operation.ok(), mode, headers, seen)
    assert {code for codes in seen.values() for code in codes} >= {200, 422}
    assert all(code < 500 for codes in seen.values() for code in codes), seen


def _ask(client, operation, mode, headers, seen):
    quiet = [*HealthCheck]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=40, deadline=None, suppress_health_check=quiet, phases=[Phase.generate], derandomize=True)
    def ask(case):
        words = case.as_transport_kwargs(base_url="http://127.0.0.1")
        words["headers"] = {**(words.get("headers") or {}), **headers}
        kept = ("method", "url", "headers", "json", "params")
        known = {name: words[name] for name in kept if words.get(name) is not None}
        answer = client.request(**known, content=words["data"] if isinstance(words.get("data"), bytes | str) else None)
        seen.setdefault(operation.path, set()).add(answer.status_code)
        assert answer.status_code < 500, (known, answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()["error"]) == {"code", "message", "argument"}

    ask()
