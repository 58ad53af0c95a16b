"""Services: cluster IPs, node ports, validation, changes of type; network policies, addresses."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]

SERVICES = "/api/v1/namespaces/default/services"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
NETWORKS = "/apis/networking.k8s.io/v1/servicecidrs"
MERGE = "application/merge-patch+json"
RANGE = "provided port is not in the valid range. The range of valid ports is 30000-32767"
NO_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def service(name: str = "s", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def ports(*ports: Json) -> Json:
    return {"ports": list(ports)}


class Refusal(NamedTuple):
    spec: Json
    field: str
    message: str


# Against a cluster with a service that has the cluster IP 10.0.7.7 and the node port 30123.
REFUSALS = {
    "a node port outside the range": Refusal(
        {"type": "NodePort", **ports({"port": 80, "nodePort": 80})},
        "spec.ports[0].nodePort",
        f"Invalid value: 80: {RANGE}",
    ),
    "a node port that is taken": Refusal(
        {"type": "NodePort", **ports({"port": 80, "nodePort": 30123})},
        "spec.ports[0].nodePort",
        "Invalid value: 30123: provided port is already allocated",
    ),
    "a cluster IP that is taken": Refusal(
        {"clusterIP": "10.0.7.7"},
        "spec.clusterIPs",
        'Invalid value: ["10.0.7.7"]: failed to allocate IP 10.0.7.7: provided IP is already '
        "allocated",
    ),
    "a cluster IP outside the range": Refusal(
        {"clusterIP": "192.0.2.7"},
        "spec.clusterIPs",
        'Invalid value: ["192.0.2.7"]: failed to allocate IP 192.0.2.7: the provided network '
        "does not match the current range",
    ),
    "a cluster IP that is none": Refusal(
        {"clusterIP": "web"}, "spec.clusterIPs[0]", f'Invalid value: "web": {NO_IP}'
    ),
    "no ports": Refusal({"ports": []}, "spec.ports", "Required value"),
    "a node port of a service that has none": Refusal(
        ports({"port": 80, "nodePort": 30999}),
        "spec.ports[0].nodePort",
        "Forbidden: may not be used when `type` is 'ClusterIP'",
    ),
    "several ports without names": Refusal(
        ports({"port": 80}, {"port": 81, "name": "b"}), "spec.ports[0].name", "Required value"
    ),
    "two ports with one name": Refusal(
        ports({"port": 80, "name": "b"}, {"port": 81, "name": "b"}),
        "spec.ports[1].name",
        'Duplicate value: "b"',
    ),
    "a port number that is none": Refusal(
        ports({"port": 70000, "targetPort": 80}),
        "spec.ports[0].port",
        "Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    "a type that does not exist": Refusal(
        {"type": "Public"},
        "spec.type",
        'Unsupported value: "Public": supported values: "ClusterIP", "ExternalName", '
        '"LoadBalancer", "NodePort"',
    ),
    "an external name that is missing": Refusal(
        {"type": "ExternalName"}, "spec.externalName", "Required value"
    ),
    "a node port type without a cluster IP": Refusal(
        {"type": "NodePort", "clusterIP": "None"},
        "spec.clusterIPs[0]",
        "Invalid value: \"None\": may not be set to 'None' for NodePort services",
    ),
    "a traffic policy without external traffic": Refusal(
        {"externalTrafficPolicy": "Local"},
        "spec.externalTrafficPolicy",
        'Invalid value: "Local": may only be set for externally-accessible services',
    ),
    "a health check port without local traffic": Refusal(
        {"type": "LoadBalancer", "healthCheckNodePort": 30500},
        "spec.healthCheckNodePort",
        "Invalid value: 30500: may only be set when `type` is 'LoadBalancer' and "
        "`externalTrafficPolicy` is 'Local'",
    ),
    "a session affinity that does not exist": Refusal(
        {"sessionAffinity": "Cookie"},
        "spec.sessionAffinity",
        'Unsupported value: "Cookie": supported values: "ClientIP", "None"',
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_services_that_are_not_valid_are_refused(refusal: Refusal) -> None:
    client = Client()
    client.create(
        SERVICES,
        service(
            "other", type="NodePort", clusterIP="10.0.7.7", **ports({"port": 1, "nodePort": 30123})
        ),
    )
    status, body = client.send("POST", SERVICES, service(**refusal.spec))
    assert status == 422, body
    shown = [(cause["field"], cause["message"]) for cause in body["details"]["causes"]]
    assert shown == [(refusal.field, refusal.message)]


def test_addresses_and_ports_come_from_their_ranges_and_are_released() -> None:
    client = Client()
    first = client.create(SERVICES, service("a", type="NodePort"))["spec"]
    second = client.create(SERVICES, service("b", type="NodePort"))["spec"]
    assert first["clusterIP"].startswith("10.0.")
    assert first["clusterIPs"] == [first["clusterIP"]]
    assert first["clusterIP"] != second["clusterIP"]
    numbers = [each["ports"][0]["nodePort"] for each in (first, second)]
    assert len(set(numbers)) == 2
    assert all(30000 <= number <= 32767 for number in numbers)
    client.send("DELETE", f"{SERVICES}/a")
    again = client.create(SERVICES, service("c", clusterIP=first["clusterIP"]))["spec"]
    assert again["clusterIP"] == first["clusterIP"]


def test_a_load_balancer_with_local_traffic_has_a_health_check_port() -> None:
    client = Client()
    spec = client.create(
        SERVICES, service("lb", type="LoadBalancer", externalTrafficPolicy="Local")
    )["spec"]
    assert 30000 <= spec["healthCheckNodePort"] <= 32767
    assert spec["healthCheckNodePort"] != spec["ports"][0]["nodePort"]
    patch = {"spec": {"healthCheckNodePort": 31999}}
    status, body = client.send("PATCH", f"{SERVICES}/lb", patch, content_type=MERGE)
    assert status == 422
    assert "spec.healthCheckNodePort" in body["message"]
    patch = {"spec": {"externalTrafficPolicy": "Cluster"}}
    status, body = client.send("PATCH", f"{SERVICES}/lb", patch, content_type=MERGE)
    assert status == 200
    assert "healthCheckNodePort" not in body["spec"]


def test_one_port_number_of_two_protocols_has_one_node_port() -> None:
    client = Client()
    both = ports({"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"})
    spec = client.create(SERVICES, service("dns", type="NodePort", **both))["spec"]
    assert spec["ports"][0]["nodePort"] == spec["ports"][1]["nodePort"]


def test_a_change_of_type_allocates_and_releases() -> None:
    client = Client()

    def patched(patch: Json) -> Json:
        status, body = client.send("PATCH", f"{SERVICES}/s", {"spec": patch}, content_type=MERGE)
        assert status == 200, body
        spec: Json = body["spec"]
        return spec

    spec = client.create(SERVICES, service("s", type="ExternalName", externalName="example.com"))[
        "spec"
    ]
    assert "clusterIP" not in spec
    spec = patched({"type": "ClusterIP", "externalName": None})
    address = spec["clusterIP"]
    assert address.startswith("10.0.")
    assert "nodePort" not in spec["ports"][0]
    spec = patched({"type": "NodePort"})
    number = spec["ports"][0]["nodePort"]
    assert spec["clusterIP"] == address
    assert number >= 30000
    assert spec["externalTrafficPolicy"] == "Cluster"
    spec = patched({"ports": [{"port": 81}]})
    assert spec["ports"][0]["nodePort"] == number  # the port of the same name keeps its own
    spec = patched({"type": "ClusterIP"})
    assert "nodePort" not in spec["ports"][0]
    assert "externalTrafficPolicy" not in spec
    spec = patched({"type": "ExternalName", "externalName": "example.com"})
    assert "clusterIP" not in spec
    assert "clusterIPs" not in spec


def test_a_cluster_ip_does_not_change() -> None:
    client = Client()
    client.create(SERVICES, service("s", clusterIP="10.0.7.7"))
    patch = {"spec": {"clusterIP": "10.0.7.8"}}
    status, body = client.send("PATCH", f"{SERVICES}/s", patch, content_type=MERGE)
    assert status == 422
    (cause,) = body["details"]["causes"]
    assert cause["field"] == "spec.clusterIPs[0]"
    assert cause["message"] == 'Invalid value: ["10.0.7.8"]: may not change once set'


def test_the_cluster_has_a_service_network_and_an_address_for_each_service() -> None:
    client = Client()
    assert client.get(NETWORKS)["items"][0]["spec"] == {"cidrs": ["10.0.0.0/16"]}
    client.create(SERVICES, service("s", clusterIP="10.0.7.7"))
    client.create(SERVICES, service("headless", clusterIP="None"))
    (address,) = client.get(ADDRESSES)["items"]
    assert address["metadata"]["name"] == "10.0.7.7"
    assert address["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    reference = {"resource": "services", "namespace": "default", "name": "s"}
    assert address["spec"] == {"parentRef": reference}
    client.send("DELETE", f"{SERVICES}/s")
    assert client.get(ADDRESSES)["items"] == []


def test_services_get_addresses_from_networks_that_users_add() -> None:
    client = Client()
    network = {"metadata": {"name": "more"}, "spec": {"cidrs": ["192.0.2.0/28"]}}
    created = client.create(NETWORKS, network)
    assert created["status"]["conditions"][0]["type"] == "Ready"
    spec = client.create(SERVICES, service("s", clusterIP="192.0.2.7"))["spec"]
    assert spec["clusterIPs"] == ["192.0.2.7"]
    bad = {"metadata": {"name": "bad"}, "spec": {"cidrs": ["192.0.2.0"]}}
    status, body = client.send("POST", NETWORKS, bad)
    assert status == 422
    assert "must be a valid CIDR value" in body["message"]


NAMES = {
    "2001:db8::ffff": "",
    "10.0.9.9": "",
    "2001:DB8::ffff": "must be a canonical format IP address",
    "web": 'ParseAddr("web"): unable to parse IP',
}


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_an_address_is_the_address(name: str) -> None:
    reference = {"resource": "services", "name": "x", "namespace": "default"}
    body = {"metadata": {"name": name}, "spec": {"parentRef": reference}}
    status, answer = Client().send("POST", ADDRESSES, body)
    assert status == (422 if NAMES[name] else 201)
    if NAMES[name]:
        shown = answer["details"]["causes"][0]["message"]
        assert shown == f'Invalid value: "{name}": {NAMES[name]}'


def test_an_address_that_a_user_has_reserved_is_taken() -> None:
    client = Client()
    reference = {"resource": "gateways", "name": "x", "namespace": "default"}
    client.create(ADDRESSES, {"metadata": {"name": "10.0.7.7"}, "spec": {"parentRef": reference}})
    status, body = client.send("POST", SERVICES, service("s", clusterIP="10.0.7.7"))
    assert status == 422
    assert "provided IP is already allocated" in body["message"]


NO_PORT = "spec.egress[0].ports[0].endPort"
POLICY_REFUSALS = {
    "an end port without a port": Refusal(
        {"egress": [{"ports": [{"endPort": 20000}]}]},
        NO_PORT,
        "Invalid value: 20000: may not be specified when `port` is not specified",
    ),
    "an end port after a name": Refusal(
        {"egress": [{"ports": [{"port": "web", "endPort": 20000}]}]},
        NO_PORT,
        "Invalid value: 20000: may not be specified when `port` is non-numeric",
    ),
    "an end port below the port": Refusal(
        {"egress": [{"ports": [{"port": 80, "endPort": 20}]}]},
        NO_PORT,
        "Invalid value: 20: must be greater than or equal to `port`",
    ),
    "a peer that names nothing": Refusal(
        {"ingress": [{"from": [{}]}]},
        "spec.ingress[0].from[0]",
        "Required value: must specify a peer",
    ),
    "an address block that is none": Refusal(
        {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0"}}]}]},
        "spec.ingress[0].from[0].ipBlock.cidr",
        'Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. 10.9.8.0/24 or '
        "2001:db8::/64)",
    ),
}


@pytest.mark.parametrize("refusal", POLICY_REFUSALS.values(), ids=POLICY_REFUSALS)
def test_network_policies_that_are_not_valid_are_refused(refusal: Refusal) -> None:
    body = {"metadata": {"name": "p"}, "spec": {"podSelector": {}, **refusal.spec}}
    status, answer = Client().send("POST", POLICIES, body)
    assert status == 422, answer
    shown = [(cause["field"], cause["message"]) for cause in answer["details"]["causes"]]
    assert shown == [(refusal.field, refusal.message)]
