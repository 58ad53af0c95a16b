"""Checks and defaults of ingresses, endpoint slices, services, quotas, limits, secrets and maps."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import pytest

from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]

HERE = "namespaces/default"
NETWORKING = "/apis/networking.k8s.io/v1"
PATHS = {
    "ConfigMap": f"/api/v1/{HERE}/configmaps",
    "EndpointSlice": f"/apis/discovery.k8s.io/v1/{HERE}/endpointslices",
    "Ingress": f"{NETWORKING}/{HERE}/ingresses",
    "IngressClass": f"{NETWORKING}/ingressclasses",
    "LimitRange": f"/api/v1/{HERE}/limitranges",
    "ResourceQuota": f"/api/v1/{HERE}/resourcequotas",
    "Secret": f"/api/v1/{HERE}/secrets",
    "Service": f"/api/v1/{HERE}/services",
}
MERGE = "application/merge-patch+json"
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
LETTER = base64.b64encode(b"x").decode()


def rule(**path: Any) -> Json:
    whole = {"path": "/", "pathType": "Prefix", "backend": BACKEND, **path}
    shown = {key: value for key, value in whole.items() if value is not None}
    return {"spec": {"rules": [{"http": {"paths": [shown]}}]}}


def service(**spec: Any) -> Json:
    return {"spec": {"ports": [{"port": 80}], **spec}}


def limit(**item: Any) -> Json:
    return {"spec": {"limits": [item]}}


class Refused(NamedTuple):
    kind: str
    parts: Json
    message: str


REFUSED = {
    "a path without a type": Refused(
        "Ingress",
        rule(pathType=None),
        "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
    ),
    "a path of an unknown type": Refused(
        "Ingress",
        rule(pathType="Regex"),
        'spec.rules[0].http.paths[0].pathType: Unsupported value: "Regex": supported values: '
        '"Exact", "ImplementationSpecific", "Prefix"',
    ),
    "a relative path": Refused(
        "Ingress",
        rule(path="a"),
        'spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path',
    ),
    "a path with an empty step": Refused(
        "Ingress",
        rule(path="/a//b"),
        "spec.rules[0].http.paths[0].path: Invalid value: \"/a//b\": must not contain '//'",
    ),
    "a path that leads nowhere": Refused(
        "Ingress",
        rule(backend={}),
        'spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is '
        "required",
    ),
    "a backend without a port": Refused(
        "Ingress",
        rule(backend={"service": {"name": "s"}}),
        "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
    ),
    "an ingress of nothing": Refused(
        "Ingress",
        {"spec": {}},
        "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified",
    ),
    "an address as a host": Refused(
        "Ingress",
        {"spec": {"rules": [{"host": "10.0.0.1"}]}},
        'spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address',
    ),
    "parameters in no namespace": Refused(
        "IngressClass",
        {
            "spec": {
                "controller": "example.com/c",
                "parameters": {"kind": "K", "name": "n", "scope": "Namespace"},
            }
        },
        "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
    ),
    "a controller without a path": Refused(
        "IngressClass",
        {"spec": {"controller": "example.com"}},
        'spec.controller: Invalid value: "example.com": must be a domain-prefixed path (such as '
        '"acme.io/foo")',
    ),
    "no type of addresses": Refused(
        "EndpointSlice", {"endpoints": []}, "addressType: Required value"
    ),
    "an address that is none": Refused(
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["x"]}]},
        'endpoints[0].addresses[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 '
        "or 2001:db8::ffff)",
    ),
    "an address of another version": Refused(
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["2001:db8::1"]}]},
        'endpoints[0].addresses[0]: Invalid value: "2001:db8::1": must be a valid IPv4 address',
    ),
    "an endpoint without addresses": Refused(
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": []}]},
        "endpoints[0].addresses: Required value: must contain at least 1 address",
    ),
    "two stacks": Refused(
        "Service",
        service(ipFamilyPolicy="RequireDualStack"),
        'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured '
        "for dual-stack services",
    ),
    "an unknown distribution": Refused(
        "Service",
        service(trafficDistribution="Far"),
        'spec.trafficDistribution: Unsupported value: "Far": supported values: "PreferClose", '
        '"PreferSameNode", "PreferSameZone"',
    ),
    "a configured affinity that is off": Refused(
        "Service",
        service(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 5}}),
        "spec.sessionAffinityConfig: Forbidden: must not be set when session affinity is None",
    ),
    "a class of a service that is no load balancer": Refused(
        "Service",
        service(loadBalancerClass="example.com/b"),
        "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
    ),
    "an unknown resource": Refused(
        "ResourceQuota",
        {"spec": {"hard": {"gpus": "1"}}},
        'spec.hard[gpus]: Invalid value: "gpus": must be a standard resource for quota',
    ),
    "a negative amount": Refused(
        "ResourceQuota",
        {"spec": {"hard": {"pods": "-1"}}},
        'spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "a scope that does not cover a resource": Refused(
        "ResourceQuota",
        {"spec": {"hard": {"configmaps": "1"}, "scopes": ["BestEffort"]}},
        'spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource',
    ),
    "scopes that exclude each other": Refused(
        "ResourceQuota",
        {"spec": {"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating"]}},
        'spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes',
    ),
    "a minimum above the maximum": Refused(
        "LimitRange",
        limit(type="Container", min={"cpu": "2"}, max={"cpu": "1"}),
        'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
    ),
    "a default request above the default limit": Refused(
        "LimitRange",
        limit(type="Container", default={"cpu": "1"}, defaultRequest={"cpu": "2"}),
        'spec.limits[0].defaultRequest[cpu]: Invalid value: "2": default request value 2 is '
        "greater than default limit value 1",
    ),
    "a limit of claims without storage": Refused(
        "LimitRange",
        limit(type="PersistentVolumeClaim", max={"cpu": "1"}),
        "spec.limits[0].limits: Required value: either minimum or maximum storage value is "
        "required, but neither was provided",
    ),
    "a certificate without a key": Refused(
        "Secret",
        {"type": "kubernetes.io/tls", "data": {"tls.crt": LETTER}},
        "data[tls.key]: Required value",
    ),
    "a token of no account": Refused(
        "Secret",
        {"type": "kubernetes.io/service-account-token"},
        "metadata.annotations[kubernetes.io/service-account.name]: Required value",
    ),
    "a secret of more than a MiB": Refused(
        "Secret",
        {"data": {"a": base64.b64encode(b"x" * (2**20 + 1)).decode()}},
        "data: Too long: may not be more than 1048576 bytes",
    ),
    "a map of more than a MiB": Refused(
        "ConfigMap",
        {"data": {"a": "x" * 2**20, "b": "x"}},
        "[]: Too long: may not be more than 1048576 bytes",
    ),
    "a text that is also binary": Refused(
        "ConfigMap",
        {"data": {"a": "x"}, "binaryData": {"a": LETTER}},
        'data[a]: Invalid value: "a": duplicate of key present in binaryData',
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused_objects(case: Refused) -> None:
    document = {"metadata": {"name": "a"}, **case.parts}
    code, refusal = Client().send("POST", PATHS[case.kind], document)
    assert code == 422, refusal
    assert case.message in refusal["message"]


class Change(NamedTuple):
    kind: str
    parts: Json
    patch: Json
    message: str


CHANGES = {
    "the controller of a class": Change(
        "IngressClass",
        {"spec": {"controller": "example.com/a"}},
        {"spec": {"controller": "example.com/b"}},
        'spec.controller: Invalid value: "example.com/b": field is immutable',
    ),
    "the type of the addresses of a slice": Change(
        "EndpointSlice",
        {"addressType": "FQDN", "endpoints": [{"addresses": ["a.example.com"]}]},
        {"addressType": "IPv4", "endpoints": []},
        'addressType: Invalid value: "IPv4": field is immutable',
    ),
    "the class of a load balancer": Change(
        "Service",
        service(type="LoadBalancer", loadBalancerClass="example.com/a"),
        {"spec": {"loadBalancerClass": "example.com/b"}},
        'spec.loadBalancerClass: Invalid value: "example.com/b": may not change once set',
    ),
    "the scopes of a quota": Change(
        "ResourceQuota",
        {"spec": {"hard": {"pods": "1"}}},
        {"spec": {"scopes": ["BestEffort"]}},
        'spec.scopes: Invalid value: ["BestEffort"]: field is immutable',
    ),
}


@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_refused_changes(case: Change) -> None:
    client = Client()
    client.create(PATHS[case.kind], {"metadata": {"name": "a"}, **case.parts})
    path = f"{PATHS[case.kind]}/a"
    code, refusal = client.send("PATCH", path, case.patch, content_type=MERGE)
    assert code == 422, refusal
    assert case.message in refusal["message"]


def test_an_ingress_gets_the_newest_default_class() -> None:
    client = Client()
    mark = {"ingressclass.kubernetes.io/is-default-class": "true"}
    for name, notes in (("old", mark), ("new", mark), ("other", {})):
        client.clock.advance(10**9)
        metadata = {"name": name, "annotations": notes}
        body = {"metadata": metadata, "spec": {"controller": "example.com/c"}}
        client.create(PATHS["IngressClass"], body)
    made = client.create(PATHS["Ingress"], {"metadata": {"name": "a"}, **rule()})
    assert made["spec"]["ingressClassName"] == "new"
    chosen = rule()
    chosen["spec"]["ingressClassName"] = "other"
    made = client.create(PATHS["Ingress"], {"metadata": {"name": "b"}, **chosen})
    assert made["spec"]["ingressClassName"] == "other"
    annotated = {"name": "c", "annotations": {"kubernetes.io/ingress.class": "x"}}
    made = client.create(PATHS["Ingress"], {"metadata": annotated, **rule()})
    assert "ingressClassName" not in made["spec"]


def test_ports_of_a_slice_have_a_protocol() -> None:
    parts = {"addressType": "IPv4", "endpoints": [], "ports": [{"port": 80}]}
    made = Client().create(PATHS["EndpointSlice"], {"metadata": {"name": "a"}, **parts})
    assert made["ports"] == [{"name": "", "protocol": "TCP", "port": 80}]


def test_addresses_of_a_load_balancer_have_a_mode() -> None:
    client = Client()
    client.create(PATHS["Service"], {"metadata": {"name": "a"}, **service(type="LoadBalancer")})
    entries = [{"ip": "203.0.113.1"}, {"ip": "203.0.113.2", "ipMode": "Proxy"}, {"hostname": "h.x"}]
    patch = {"status": {"loadBalancer": {"ingress": entries}}}
    path = f"{PATHS['Service']}/a/status"
    code, changed = client.send("PATCH", path, patch, content_type=MERGE)
    assert code == 200
    modes = [each.get("ipMode") for each in changed["status"]["loadBalancer"]["ingress"]]
    assert modes == ["VIP", "Proxy", None]
