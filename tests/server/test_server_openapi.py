"""The OpenAPI document describes every operation, parameter and field, in plain words."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec

import pytest

from posthouse.server import create_app
from posthouse.settings import Settings

MAX_SUMMARY = 60
VERBS = re.findall(
    r"\w+",
    "Cancel Change Check Claim Count Create Delete Deregister Disable Download Drain Emit Enable Erase "
    "Enqueue Explain Fire Get List Log Pause Preview Process Read Record Register Renew Replay "
    "Report Request Resume Retry Return Revoke Run Search Start Stop Store Stream Suggest Transcode "
    "Upload Validate Wait Write ",
)
VAGUE = re.compile(r"\b(whoever|somebody|nobody|anybody|whatever|everybody)\b", re.IGNORECASE)


APPLICATIONS = ("calls", "embeddings", "photos", "vision", "vlog")


@pytest.fixture(scope="module")
def document():
    """The API with the routes of all installed applications."""
    routers = [import_module(f"{name}.routes").router for name in APPLICATIONS if find_spec(name)]
    return create_app(Settings(database_url="postgresql://nowhere"), routers).openapi()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_each_operation_has_a_short_summary_in_the_imperative(document):
    for name, operation in operations(document):
        summary = operation["summary"]
        assert summary.split()[0] in VERBS, f"{name}: {summary!r} does not start with a verb"
        assert len(summary) <= MAX_SUMMARY, f"{name}: {summary!r} is longer than {MAX_SUMMARY} characters"
        assert not summary.endswith("."), f"{name}: {summary!r} ends with a full stop"


def test_operation_ids_are_unique_identifiers(document):
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(names)) == len(names)
    assert [name for name in names if not name.isidentifier()] == []


def test_each_operation_says_what_it_answers(document):
    for name, operation in operations(document):
        described = all(response["description"] for response in operation["responses"].values())
        assert operation.get("description") or described, name


def test_each_parameter_has_a_description(document):
    for name, operation in operations(document):
        missing = [item["name"] for item in operation.get("parameters", ()) if not item.get("description")]
        assert not missing, f"{name}: no description of {missing}"


def test_each_field_has_a_description(document):
    for name, schema in document["components"]["schemas"].items():
        fields = schema.get("properties", {})
        missing = [field for field, details in fields.items() if not details.get("description")]
        assert not missing, f"{name}: no description of {missing}"


def test_each_reference_leads_to_a_schema(document):
    names = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert names <= document["components"]["schemas"].keys()


def test_each_tag_in_use_has_a_description(document):
    described = {tag["name"] for tag in document["tags"] if tag["description"]}
    for name, operation in operations(document):
        assert set(operation["tags"]) <= described | {*APPLICATIONS}, name


def test_descriptions_name_their_subject(document):
    assert VAGUE.findall(str(document)) == []
