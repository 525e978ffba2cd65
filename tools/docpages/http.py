"""docs/reference/http.md, from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docpages.markdown import opening, table, text
from posthouse.server import create_app
from posthouse.settings import Settings

INTRODUCTION = """\
Every route of the [HTTP API](../api.md), generated from the OpenAPI document that a server has at
`/api/v1/openapi.json`. Errors are `application/problem+json`. Every route can respond with 401, 403, 422, 429
and 503.
"""
_EVERYWHERE = {"401", "403", "422", "429", "503"}


def page() -> str:
    app = create_app(Settings(database_url="postgresql://nowhere"))
    document = app.openapi()
    lines = [*opening("HTTP", "posthouse.server"), INTRODUCTION]
    for tag, operations in _by_tag(document).items():
        lines += [f"## {tag.capitalize()}", ""]
        for method, path, operation in operations:
            lines += _operation(method, path, operation)
    lines += ["## Bodies", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        if schema.get("type") == "object" and name in _bodies(document):
            lines += _schema(name, schema)
    return text(lines)


def _by_tag(document: dict[str, Any]) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    found: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            found.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    return found


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {method} {path}"
    yield ""
    yield " ".join(f"{operation['summary']}. {operation.get('description', '')}".split())
    yield ""
    for parameter in operation.get("parameters", ()):
        told = parameter.get("description", "")
        where = "" if parameter["in"] == "query" else f" ({parameter['in']})"
        kind = _kind(parameter["schema"])
        yield f"- `{parameter['name']}`{where}: {kind}{'. ' + told if told else ''}"
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        yield f"- body: {_kind(body)}"
    answers = [
        f"{status} {_kind(_schema_of(answer))}".strip()
        for status, answer in operation["responses"].items()
        if status not in _EVERYWHERE
    ]
    yield f"- responses: {', '.join(answers)}"
    yield ""


def _schema_of(answer: dict[str, Any]) -> dict[str, Any]:
    for content in answer.get("content", {}).values():
        return dict(content.get("schema", {}))
    return {}


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[-1]}`"
    choices = [_kind(item) for item in schema.get("anyOf", ()) if item.get("type") != "null"]
    if choices:
        return " or ".join(dict.fromkeys(choices))
    if "enum" in schema:
        return ", ".join(str(item) for item in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}".strip()
    return str(schema.get("format") or schema.get("type") or "")


def _bodies(document: dict[str, Any]) -> set[str]:
    """The schemas that requests are made of."""
    found: set[str] = set()
    for methods in document["paths"].values():
        for operation in methods.values():
            _refs(operation.get("requestBody", {}), document, found)
    return found


def _refs(node: Any, document: dict[str, Any], found: set[str]) -> None:
    if isinstance(node, dict):
        name = str(node.get("$ref", "")).rsplit("/", 1)[-1]
        if name and name not in found:
            found.add(name)
            _refs(document["components"]["schemas"][name], document, found)
        for value in node.values():
            _refs(value, document, found)
    elif isinstance(node, list):
        for value in node:
            _refs(value, document, found)


def _schema(name: str, schema: dict[str, Any]) -> list[str]:
    needed = set(schema.get("required", ()))
    rows = [
        (
            f"`{field}`",
            _kind(details),
            "yes" if field in needed else "",
            " ".join(details.get("description", "").split()),
        )
        for field, details in schema["properties"].items()
    ]
    about = " ".join(schema.get("description", "").split())
    return [f"### {name}", "", about, "", *table(["field", "type", "required", "description"], rows)]
