"""The order in which nodes are listed: round-robin over zones (docs/reference/04 §5)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from kubesched.api import Node
from kubesched.errors import CacheError

__all__ = ["NodeListing", "NodeTree", "zone_key"]

# Names in order (the values are None), by the key of their zone.
_Zones = dict[str, dict[str, None]]

# The old labels come first, also if they are empty.
_OLD_ZONE, _ZONE = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
_OLD_REGION = "failure-domain.beta.kubernetes.io/region"
_REGION = "topology.kubernetes.io/region"


def zone_key(node: Node) -> str:
    """Return a key of the node's zone and region; empty if it has neither."""
    labels = node.metadata.labels
    zone = labels.get(_OLD_ZONE)
    if zone is None:
        zone = labels.get(_ZONE, "")
    region = labels.get(_OLD_REGION)
    if region is None:
        region = labels.get(_REGION, "")
    return f"{region}:\x00:{zone}" if zone or region else ""


class NodeListing:
    """The names in a tree at the time when the listing was created."""

    __slots__ = ("_zones",)

    def __init__(self, zones: Mapping[str, Mapping[str, None]]) -> None:
        self._zones = zones

    def names(self) -> list[str]:
        """Return the first node of each zone, then the second of each, and so on."""
        rounds = zip_longest(*self._zones.values())
        return [name for one_round in rounds for name in one_round if name is not None]


class NodeTree:
    """Node names by zone. Zones and names are in the order in which they were added."""

    def __init__(self) -> None:
        self._zones: _Zones = {}
        self._count = 0
        self._listing: NodeListing | None = None  # the last listing, if it has the current zones

    def __len__(self) -> int:
        return self._count

    def listing(self) -> NodeListing:
        """Return the current names. Later changes do not affect the listing.

        The listing is not a copy: the next change copies the zones first.
        """
        if self._listing is None:
            self._listing = NodeListing(self._zones)
        return self._listing

    def _separate(self) -> None:
        """Leave the current zones to the listing, and change a copy of them."""
        if self._listing is not None:
            self._zones = {key: names.copy() for key, names in self._zones.items()}
            self._listing = None

    def add(self, node: Node) -> None:
        self._separate()
        names = self._zones.setdefault(zone_key(node), {})
        if node.metadata.name not in names:
            names[node.metadata.name] = None
            self._count += 1

    def remove(self, node: Node) -> None:
        """Remove a node.

        Raises:
            CacheError: the node is not in its zone.
        """
        self._separate()
        key = zone_key(node)
        names = self._zones.get(key)
        if names is None or node.metadata.name not in names:
            raise CacheError(f"node {node.metadata.name!r} in zone {key!r} was not found")
        del names[node.metadata.name]
        self._count -= 1
        if not names:
            del self._zones[key]

    def update(self, old: Node | None, new: Node) -> None:
        """Replace a node; one that changed its zone moves to the end of the new zone."""
        if old is not None:
            if zone_key(old) == zone_key(new):
                return
            self.remove(old)
        self.add(new)
