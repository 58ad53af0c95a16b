"""Where the volumes of a pod are, and which nodes reach them; for explanations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kubesched.api import NodeSelector, PersistentVolume, PersistentVolumeClaim
from kubesched.api.node_selector import NodeMatcher
from kubesched.framework import NodeInfo
from kubesched.framework.explaining import Detail, RejectedNodes
from kubesched.scheduler.plugins.helpers.wording import listed, shown_requirement

__all__ = ["PLACES", "describe_unreachable", "place_of", "reaches"]

# Labels that name places, each with the word for it.
PLACES: Final = {
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "failure-domain.beta.kubernetes.io/zone": "zone",
    "kubernetes.io/hostname": "node",
}
# Separates the zones in the label of a volume that is in several.
_ZONES: Final = "__"


def place_of(volume: PersistentVolume) -> str:
    """Describe where a volume is, by its affinity or its labels; empty if it is anywhere."""
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        return _shown_places(affinity.required)
    return ", ".join(
        f"{PLACES[key]} {value}" for key, value in volume.metadata.labels.items() if key in PLACES
    )


def reaches(node: NodeInfo, volume: PersistentVolume) -> bool:
    """Whether the place of a volume admits a node."""
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        return NodeMatcher.parse(affinity.required).matches(node.labels, node.name)
    return all(
        node.labels.get(key) in value.split(_ZONES)
        for key, value in volume.metadata.labels.items()
        if key in PLACES
    )


def describe_unreachable(
    rejected: RejectedNodes, claims: Mapping[str, PersistentVolumeClaim | None], detail: str
) -> Detail:
    """Describe volumes that the rejected nodes do not reach."""
    placed = list(_placed_volumes(rejected, claims))
    for name, volume in placed:
        if reaches(rejected.example, volume):
            continue
        place, what = place_of(volume), f"volume {volume.metadata.name} of claim {name}"
        has_nodes = any(reaches(node, volume) for node in rejected.nodes)
        sentence = f"{what} can only be reached from {place}"
        if not has_nodes:
            is_node = place.startswith("node ") and " or " not in place
            sentence += ", which does not exist" if is_node else ", where there is no node"
        elif rejected.are_all and len(placed) > 1:
            where = listed([f"{each.metadata.name} in {place_of(each)}" for _, each in placed])
            sentence = f"no node reaches all of its volumes: {where}"
        return Detail(
            place,
            detail=detail,
            sentence=sentence,
            brief=f"cannot reach volume {volume.metadata.name} ({place})",
            selects=f"can reach {what} ({place})",
        )
    return Detail(
        detail=detail,
        sentence="its volumes cannot be reached from any node",
        brief="cannot reach its volumes",
        selects="can reach its volumes",
    )


def _placed_volumes(
    rejected: RejectedNodes, claims: Mapping[str, PersistentVolumeClaim | None]
) -> Iterator[tuple[str, PersistentVolume]]:
    """Yield the volumes that are at a place, each with the name of its claim."""
    for name, claim in claims.items():
        if claim is None or not claim.spec.volume_name:
            continue
        volume = rejected.objects.get(PersistentVolume, claim.spec.volume_name)
        if volume is not None and place_of(volume):
            yield name, volume


def _shown_places(selector: NodeSelector) -> str:
    return " or ".join(
        " and ".join(
            f"{PLACES[each.key]} {' or '.join(each.values)}"
            if each.key in PLACES and each.operator == "In"
            else shown_requirement(each)
            for each in (*term.match_expressions, *term.match_fields)
        )
        for term in selector.node_selector_terms
    )
