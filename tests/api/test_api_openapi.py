"""The OpenAPI document, as programs read it that generate clients."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from hornbeam_server.api.rest.app import INTERNAL_TAGS, TAGS

PROBLEM = "application/problem+json"
_KNOWN = re.compile(r"application/(?:json|octet-stream)|.*\+json|text/(?!csv).*")
"""The media types that openapi-python-client reads and writes by itself."""


@pytest.fixture
def document(shop) -> dict[str, Any]:
    found: dict[str, Any] = shop.client.get("/openapi.json").json()
    return found


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def test_the_document_is_valid(document):
    validate(document)


def test_problems_are_references_to_one_schema(document):
    assert {"Problem", "SchemaProblem"} <= document["components"]["schemas"].keys()
    found = [
        answer["content"][PROBLEM]["schema"]
        for operation in _operations(document)
        for answer in operation["responses"].values()
        if PROBLEM in answer.get("content", {})
    ]
    assert len(found) > 150
    assert all(schema == {"$ref": "#/components/schemas/Problem"} for schema in found)


def test_every_reference_leads_to_a_schema(document):
    text = json.dumps(document)
    named = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert named == document["components"]["schemas"].keys() | {"Problem"}
    assert "$defs" not in text


def test_every_operation_has_a_tag_and_internal_operations_are_marked(document):
    assert [tag["name"] for tag in document["tags"]] == [*TAGS, *INTERNAL_TAGS]
    for operation in _operations(document):
        (tag,) = operation["tags"]
        assert (tag in INTERNAL_TAGS) == operation.get("x-internal", False), operation
        assert tag in TAGS or tag in INTERNAL_TAGS
    public = {op["operationId"] for op in _operations(document) if "x-internal" not in op}
    assert {"query", "transact", "plan_schema", "show_view", "create_key"} <= public
    assert not public & {"put_rows", "begin_batch", "begin_export"}


def test_the_documentation_names_each_media_type_that_generators_do_not_know(document):
    used, unknown = set(), set()
    for operation in _operations(document):
        bodies = operation.get("requestBody", {}).get("content", {}).keys()
        answers = [answer.get("content", {}).keys() for answer in operation["responses"].values()]
        used |= set(bodies).union(*answers)
        unknown |= {type_ for type_ in bodies if not _KNOWN.fullmatch(type_)}
        for types in answers:
            unknown |= set() if any(map(_KNOWN.fullmatch, types)) else set(types)
    page = Path("docs/operations.md").read_text()
    (block,) = re.findall(r"content_type_overrides:\n((?:  .+\n)+)", page)
    named = set(re.findall(r"^  (\S+): ", block, re.M))
    assert unknown <= named <= used
