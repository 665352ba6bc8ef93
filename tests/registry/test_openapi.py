"""The OpenAPI document of the registry: it names each route, and no other."""

import re
from typing import Final

import msgspec

from pdproto.registry import openapi
from pdproto.registry.app import RegistryApp, RegistryServer
from pdproto.registry.openapi import document
from pdproto.registry.registry import Registry
from tests.registry.served import sglang

DOCUMENT: Final = document()


def routes(app: RegistryApp) -> set[tuple[str, str]]:
    """The method and the path of each route."""
    return {(route.method, route.resource.canonical)
            for route in app.app.router.routes() if route.resource is not None}


def described() -> set[tuple[str, str]]:
    return {(method.upper(), path) for path, methods in DOCUMENT["paths"].items()
            for method in methods}


def test_the_document_names_each_route_and_no_other() -> None:
    assert described() == routes(RegistryApp(Registry()))


def test_a_route_more_is_not_in_the_document() -> None:
    app = RegistryApp(Registry())
    app.app.router.add_get("/more", app._health)
    assert routes(app) - described() == {("GET", "/more"), ("HEAD", "/more")}


def test_every_reference_leads_to_a_schema() -> None:
    names = set(re.findall(rf"{openapi.SCHEMAS}(\w+)", msgspec.json.encode(DOCUMENT).decode()))
    assert names == DOCUMENT["components"]["schemas"].keys()


def test_a_registry_serves_the_document() -> None:
    with RegistryServer() as server:
        status, body = sglang(server, "GET", "/openapi.json")
    assert (status, body.encode()) == (200, openapi.encoded())
