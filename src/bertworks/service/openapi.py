"""The documentation: an OpenAPI document made of the operations, and a page made of that."""

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from typing import Any

import msgspec

from bertworks.core import __version__
from bertworks.service.failures import STATUSES
from bertworks.service.operations import JSON, Operation
from bertworks.service.probes import OPEN_PATHS
from bertworks.service.schemas import ErrorAnswer

REFERENCE = "#/components/schemas/{name}"
ALWAYS = ("bad_request", "wrong_host", "failed")  # any operation may end so
STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "h2{margin-top:2rem}code,pre{font-size:.9em}pre{overflow:auto}"
    "summary{cursor:pointer;padding:.2rem 0}"
)
STYLE_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()
PAGE_POLICY = f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; frame-ancestors 'none'"


def describe(operations: Sequence[Operation], *, has_keys: bool) -> dict[str, Any]:
    """Return the OpenAPI document of some operations."""
    kinds = [kind for one in operations for kind in (one.request, one.answer) if kind is not None]
    schemas, components = msgspec.json.schema_components(
        [*kinds, ErrorAnswer], ref_template=REFERENCE
    )
    of_kind = {_name(kind): schema for kind, schema in zip(kinds, schemas, strict=False)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _operation(operation, of_kind, schemas[-1], has_keys=has_keys)
        paths.setdefault(path_of(operation), {})[operation.method.lower()] = described
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "bertworks", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }
    if has_keys:
        key = {"type": "http", "scheme": "bearer"}
        document["components"]["securitySchemes"] = {"key": key}
    return document


def path_of(operation: Operation) -> str:
    """Return the path of an operation without the kinds of its parts."""
    return operation.path.replace(":path}", "}")


def _name(kind: Any) -> str:
    return repr(kind)


def _operation(
    operation: Operation, of_kind: dict[str, Any], error: dict[str, Any], *, has_keys: bool
) -> dict[str, Any]:
    asks_key = has_keys and operation.path not in OPEN_PATHS
    described: dict[str, Any] = {
        "operationId": _id_of(operation),
        "summary": operation.summary,
        "tags": [operation.family],
        "responses": {
            "200": _answer(operation, of_kind),
            **_errors(operation, error, asks_key=asks_key),
        },
    }
    names = re.findall(r"{(\w+)}", path_of(operation))
    if names:
        described["parameters"] = [_place(name, operation.places.get(name)) for name in names]
    if operation.request is not None:
        content = {JSON: {"schema": of_kind[_name(operation.request)]}}
        described["requestBody"] = {"required": True, "content": content}
    if asks_key:
        described["security"] = [{"key": []}]
    return described


def _place(name: str, known: Sequence[str] | None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    if known is not None:
        schema = {"enum": list(known)}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _id_of(operation: Operation) -> str:
    words = re.findall(r"[A-Za-z0-9]+", path_of(operation))
    return "_".join([operation.method.lower(), *words])


def _answer(operation: Operation, of_kind: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "string"}
    if operation.answer is not None:
        schema = of_kind[_name(operation.answer)]
    answer: dict[str, Any] = {
        "description": "The answer.",
        "content": {operation.media: {"schema": schema}},
    }
    if operation.tells_model:
        answer["headers"] = {name: _header(*told) for name, told in TOLD.items()}
    return answer


def _header(meaning: str, kind: str = "integer") -> dict[str, Any]:
    return {"description": meaning, "schema": {"type": kind}}


def _errors(
    operation: Operation, error: dict[str, Any], *, asks_key: bool
) -> dict[str, dict[str, Any]]:
    """Return what each status of failures means; they all look alike."""
    codes = {*operation.codes, *ALWAYS, *(["unauthorized"] if asks_key else [])}
    codes |= {"loading"} if operation.needs_models else set()
    by_status: dict[int, list[str]] = {}
    for code in sorted(codes):
        by_status.setdefault(STATUSES[code], []).append(code)
    return {
        str(status): {
            "description": f"The code is {' or '.join(found)}.",
            "content": {JSON: {"schema": error}},
            **({"headers": RETRY} if status in (429, 503) else {}),
        }
        for status, found in sorted(by_status.items())
    }


TOLD = {
    "x-bertworks-model": ("Which model answered; what is not ASCII is percent-encoded.", "string"),
    "x-bertworks-revision": ("Which weights, vocabulary and settings it has.", "string"),
    "x-compute-tokens": ("How many tokens were read.", "integer"),
    "x-truncated": ("How many inputs were cut.", "integer"),
}
RETRY = {"Retry-After": _header("Seconds to wait.")}


def page_of(document: dict[str, Any]) -> str:
    """Return the document as a page that needs nothing else."""
    rows = [
        _row(path, method, described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    ]
    kinds = [
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        f"<pre>{_pretty(schema)}</pre></details>"
        for name, schema in document["components"]["schemas"].items()
    ]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>bertworks</title>'
        '<meta name="viewport" content="width=device-width"><style>' + STYLE + "</style>"
        f"<h1>bertworks {escape(document['info']['version'])}</h1>"
        "<p>The same as data: <a href=openapi.json>openapi.json</a></p>"
        f"<h2>Routes</h2>{''.join(rows)}<h2>Types</h2>{''.join(kinds)}</html>"
    )


def _row(path: str, method: str, described: dict[str, Any]) -> str:
    parts = {name: described[name] for name in ("requestBody", "responses") if name in described}
    return (
        f"<details><summary><code>{method.upper()} {escape(path)}</code> "
        f"{escape(described['summary'])}</summary><pre>{_pretty(parts)}</pre></details>"
    )


def _pretty(value: Any) -> str:
    return escape(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
