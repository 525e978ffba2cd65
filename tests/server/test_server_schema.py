"""The document of the API says what the API does: schemathesis tries."""

from __future__ import annotations

import asyncio

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from serverkit import key_for, served

from posthouse import testing
from posthouse.server import create_app
from posthouse.settings import Settings

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
DOCUMENT = create_app(Settings(database_url="postgresql://nowhere")).openapi()
ENDLESS = "/api/v1/stream"
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(path=ENDLESS)


@pytest.fixture(scope="module")
def served_api(server):
    with (
        testing.database(server) as url,
        served(Settings(database_url=url)) as address,
        requests.Session() as session,
    ):
        session.headers["Authorization"] = f"Bearer {asyncio.run(key_for(url, 'super-admin'))}"
        yield address, session


@schema.parametrize()
@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_as_the_document_says(case, served_api):
    address, session = served_api
    case.call_and_validate(base_url=address, session=session, checks=CHECKS, timeout=20)
