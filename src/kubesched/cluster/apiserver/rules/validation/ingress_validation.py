"""Validation of ingresses, ingress classes and endpoint slices."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubesched.cluster.apiserver.rules.validation.names import (
    dns_1035_label,
    dns_label,
    dns_subdomain,
    port_name,
    port_number,
)

__all__ = ["check_endpoint_slice", "check_ingress", "check_ingress_class"]

Json = dict[str, Any]

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_FORBIDDEN_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_FORBIDDEN_ENDS = ("/..", "/.")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_VERSIONS = {"IPv4": 4, "IPv6": 6}
_MOST_ENDPOINTS = 1000
_MOST_ADDRESSES = 100


def check_ingress(ingress: Json) -> Iterator[FieldProblem]:
    """Iterate over the problems of an ingress."""
    spec = ingress.get("spec") or {}
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        text = "Invalid value: null: either `defaultBackend` or `rules` must be specified"
        yield FieldProblem("spec", "FieldValueInvalid", text)
    if backend is not None:
        yield from _check_backend(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        yield from _check_rule(rule, f"spec.rules[{index}]")
    name = spec.get("ingressClassName")
    if name is not None:
        yield from (invalid("spec.ingressClassName", name, text) for text in dns_subdomain(name))


def _check_rule(rule: Json, path: str) -> Iterator[FieldProblem]:
    if host := rule.get("host"):
        if _version_of(host):
            yield invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        else:
            shown = host.removeprefix("*.")
            yield from (invalid(f"{path}.host", host, text) for text in dns_subdomain(shown))
    http = rule.get("http")
    if http is None:
        return
    if not http.get("paths"):
        yield required(f"{path}.http.paths")
    for index, each in enumerate(http.get("paths") or ()):
        yield from _check_path(each, f"{path}.http.paths[{index}]")


def _check_path(each: Json, path: str) -> Iterator[FieldProblem]:
    kind, text = each.get("pathType"), each.get("path") or ""
    if kind is None:
        yield required(f"{path}.pathType", "pathType must be specified")
    elif kind not in _PATH_TYPES:
        yield not_supported(f"{path}.pathType", kind, _PATH_TYPES)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(f"{path}.path", text, "must be an absolute path")
    elif kind != "ImplementationSpecific":
        for part in _FORBIDDEN_PARTS:
            if part in text:
                yield invalid(f"{path}.path", text, f"must not contain '{part}'")
        for end in _FORBIDDEN_ENDS:
            if text.endswith(end):
                yield invalid(f"{path}.path", text, f"cannot end with '{end}'")
    yield from _check_backend(each.get("backend") or {}, f"{path}.backend")


def _check_backend(backend: Json, path: str) -> Iterator[FieldProblem]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif service is None and resource is None:
        yield invalid(path, "", "resource or service backend is required")
    elif service is not None:
        yield from _check_service(service, path)


def _check_service(service: Json, path: str) -> Iterator[FieldProblem]:
    name, port = service.get("name"), service.get("port") or {}
    if not name:
        yield required(f"{path}.service.name")
    else:
        yield from (invalid(f"{path}.service.name", name, text) for text in dns_1035_label(name))
    named, number = port.get("name"), port.get("number")
    if named and number:
        yield invalid(path, "", "cannot set both port name & port number")
    elif named:
        yield from (invalid(f"{path}.service.port.name", named, text) for text in port_name(named))
    elif number:
        where = f"{path}.service.port.number"
        yield from (invalid(where, number, text) for text in port_number(number))
    else:
        yield required(path, "port name or number is required")


def check_ingress_class(ingress_class: Json) -> Iterator[FieldProblem]:
    """Iterate over the problems of an ingress class."""
    spec = ingress_class.get("spec") or {}
    controller = spec.get("controller") or ""
    prefix, slash, rest = controller.partition("/")
    if not slash or not rest or dns_subdomain(prefix):
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield invalid("spec.controller", controller, text)
    parameters = spec.get("parameters")
    if parameters is None:
        return
    for field in ("kind", "name"):
        if not parameters.get(field):
            yield required(f"spec.parameters.{field}")
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope not in ("Cluster", "Namespace"):
        yield not_supported("spec.parameters.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Namespace" and not namespace:
        text = "`parameters.scope` is set to 'Namespace'"
        yield required("spec.parameters.namespace", text)
    elif scope == "Cluster" and namespace:
        text = "`parameters.scope` is set to 'Cluster'"
        yield forbidden("spec.parameters.namespace", text)


def check_endpoint_slice(endpoint_slice: Json) -> Iterator[FieldProblem]:
    """Iterate over the problems of an endpoint slice."""
    kind, endpoints = endpoint_slice.get("addressType"), endpoint_slice.get("endpoints") or []
    if not kind:
        yield required("addressType")
    elif kind not in _ADDRESS_TYPES:
        yield not_supported("addressType", kind, _ADDRESS_TYPES)
    if len(endpoints) > _MOST_ENDPOINTS:
        yield too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)
        return
    for index, endpoint in enumerate(endpoints):
        addresses = endpoint.get("addresses") or []
        yield from _check_addresses(addresses, kind, f"endpoints[{index}].addresses")
    yield from _check_ports_of_slice(endpoint_slice.get("ports") or ())


def _check_addresses(addresses: list[str], kind: str | None, path: str) -> Iterator[FieldProblem]:
    if not addresses:
        yield required(path, "must contain at least 1 address")
    elif len(addresses) > _MOST_ADDRESSES:
        yield too_many(path, len(addresses), _MOST_ADDRESSES)
    for number, address in enumerate(addresses):
        yield from _check_address(address, kind, f"{path}[{number}]")


def _check_ports_of_slice(ports: Iterable[Json]) -> Iterator[FieldProblem]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name") or ""
        if name in names:
            yield duplicate("ports", name)
        names.add(name)
        if name:
            yield from (invalid(f"ports[{index}].name", name, text) for text in dns_label(name))


def _check_address(address: str, kind: str | None, path: str) -> Iterator[FieldProblem]:
    if kind == "FQDN":
        yield from (invalid(path, address, text) for text in dns_subdomain(address))
    elif kind in _VERSIONS:
        found = _version_of(address)
        if not found:
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(path, address, text)
        elif found != _VERSIONS[kind]:
            yield invalid(path, address, f"must be a valid {kind} address")


def _version_of(text: str) -> int:
    """Return the version of an IP address; 0 if the text is none."""
    try:
        return ipaddress.ip_address(text).version
    except ValueError:
        return 0
