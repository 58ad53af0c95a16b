"""`/metrics` and `/metrics/slis` of the API server, and the expiry of continue tokens."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kubesched.foundation.http.http_messages import Request, Response
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.apiserver.http.client import Client

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def samples(text: str, name: str) -> list[tuple[dict[str, str], float]]:
    families = text_string_to_metric_families(text)
    return [
        (sample.labels, sample.value)
        for family in families
        for sample in family.samples
        if sample.name == name
    ]


def complete(client: Client, method: str, path: str) -> None:
    async def main() -> None:
        assert isinstance(await client.service.complete(Request.of(method, path)), Response)

    run(main)


def test_requests_and_objects_are_counted() -> None:
    client = Client()
    client.create(CONFIG_MAPS, {"metadata": {"name": "one"}})
    for path in (CONFIG_MAPS, CONFIG_MAPS, f"{CONFIG_MAPS}/none", "/api/v1/invented"):
        complete(client, "GET", path)
    status, text = client.send("GET", "/metrics")
    assert status == 200
    requests = samples(text, "apiserver_request_total")
    counts = {
        (each["verb"], each["code"]): value
        for each, value in requests
        if each["resource"] == "configmaps"
    }
    assert counts == {("LIST", "200"): 2.0, ("GET", "404"): 1.0}
    assert not any(each["resource"] == "invented" for each, _ in requests)
    objects = {
        each["resource"]: value for each, value in samples(text, "apiserver_resource_objects")
    }
    assert (objects["configmaps"], objects["namespaces"]) == (1.0, 4.0)
    first = text.splitlines()[:2]
    assert first == [
        "# HELP aggregator_discovery_aggregation_count_total [ALPHA] Counter of number of times "
        "discovery was aggregated",
        "# TYPE aggregator_discovery_aggregation_count_total counter",
    ]


def test_health_checks_are_indicators() -> None:
    status, text = Client().send("GET", "/metrics/slis")
    assert status == 200
    checks = samples(text, "kubernetes_healthcheck")
    assert ({"name": "etcd", "type": "livez"}, 1.0) in checks


def test_a_continue_token_expires_and_the_list_continues_inconsistently() -> None:
    client = Client()
    for name in ("a", "b", "c"):
        client.create(CONFIG_MAPS, {"metadata": {"name": name}})
    first = client.get(f"{CONFIG_MAPS}?limit=1")
    token = first["metadata"]["continue"]
    client.clock.advance(299 * SECOND)
    assert names(client.get(f"{CONFIG_MAPS}?limit=1&continue={token}")) == ["b"]
    client.clock.advance(SECOND)
    client.create(CONFIG_MAPS, {"metadata": {"name": "bb"}})
    status, body = client.send("GET", f"{CONFIG_MAPS}?limit=1&continue={token}")
    assert (status, body["reason"]) == (410, "Expired")
    token = body["metadata"]["continue"]
    rest = client.get(f"{CONFIG_MAPS}?continue={token}")
    assert names(rest) == ["b", "bb", "c"]


def names(page: Any) -> list[str]:
    return [each["metadata"]["name"] for each in page["items"]]
