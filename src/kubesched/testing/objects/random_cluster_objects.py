"""The objects around the nodes and pods of a random cluster: namespaces, owners, volumes."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kubesched.api.base import ApiObject
from kubesched.testing.objects.builders import HOSTNAME, ZONE
from kubesched.testing.objects.object_builders import (
    make_csi_node,
    make_namespace,
    make_pdb,
    make_pv,
    make_pvc,
    make_replica_set,
    make_service,
    make_stateful_set,
    make_storage_class,
)
from kubesched.testing.objects.selector_builders import Expression, make_node_selector

__all__ = ["random_other_objects"]

_DRIVER = "csi.example.com"


def random_other_objects(
    rng: random.Random, namespaces: Sequence[str], nodes: Sequence[str], zones: Sequence[str]
) -> tuple[ApiObject, ...]:
    """Return random objects that plugins look up, for a cluster with these names."""
    made: list[ApiObject] = [
        make_namespace(name, labels={"team": name.removeprefix("team-")}) for name in namespaces
    ]
    made += [
        make_storage_class("late"),
        make_storage_class("at-once", wait_for_first_consumer=False),
    ]
    made += [
        make_csi_node(name, {_DRIVER: rng.choice((None, 0, 1, 10))})
        for name in nodes
        if rng.random() < 0.8
    ]
    for namespace in namespaces:
        made += _workloads(rng, namespace)
        made += _volumes(rng, namespace, nodes, zones)
    return tuple(made)


def _workloads(rng: random.Random, namespace: str) -> list[ApiObject]:
    made: list[ApiObject] = [
        make_replica_set("web", namespace=namespace, selector={"app": "web"}),
        make_stateful_set("db", namespace=namespace, selector={"app": "db"}),
    ]
    if rng.random() < 0.5:
        made.append(make_service("web", namespace=namespace, selector={"app": "web"}))
    if rng.random() < 0.5:
        budget = rng.choice((0, 1))
        made.append(
            make_pdb("db", namespace=namespace, selector={"app": "db"}, disruptions_allowed=budget)
        )
    return made


def _volumes(
    rng: random.Random, namespace: str, nodes: Sequence[str], zones: Sequence[str]
) -> list[ApiObject]:
    made: list[ApiObject] = [
        make_pvc("unbound-late", namespace=namespace, storage_class="late"),
        make_pvc("unbound-at-once", namespace=namespace, storage_class="at-once"),
        make_pvc("lost", namespace=namespace, storage_class="late", volume_name="gone"),
    ]
    places: list[Expression | None] = [None, (ZONE, "In", rng.choice(zones))]
    if nodes:
        places.append((HOSTNAME, "In", rng.choice(nodes)))
    for number, place in enumerate(places):
        name = f"{namespace}-{number}"
        claim = make_pvc(
            f"bound-{number}", namespace=namespace, storage_class="late", volume_name=name
        )
        volume = make_pv(
            name,
            storage_class="late",
            csi_driver=_DRIVER,
            claim=claim,
            labels={ZONE: rng.choice(zones)} if rng.random() < 0.3 else None,
            node_selector=make_node_selector(place) if place is not None else None,
        )
        made += [claim, volume]
    if rng.random() < 0.5:
        made.append(make_pv(f"{namespace}-free", storage_class="late", size="5Gi"))
    return made
