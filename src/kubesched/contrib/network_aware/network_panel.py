"""What the page shows of applications: how many of their dependencies are near."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kubesched.contrib.network_aware.app_groups import AppGroup
from kubesched.contrib.network_aware.places import NodePlaces, pods_of
from kubesched.framework import MOST_PANEL_ROWS, NodeView, Panel, PanelMeter, PanelRow

__all__ = ["network_panel"]


def network_panel(groups: Iterable[AppGroup], places: NodePlaces, nodes: NodeView) -> Panel:
    """Return a row for each AppGroup, with the share of its pairs of pods that are near.

    The pods are those that the last attempt has seen.
    """
    known = sorted(groups, key=lambda group: (group.namespace, group.name))
    if not known:
        return Panel("Applications", "There is no AppGroup.")
    rows = tuple(_row(group, places, nodes) for group in known[:MOST_PANEL_ROWS])
    far = sum(1 for row in rows if row.tone == "warm")
    summary = "No dependency is too far." if not far else f"{far} have dependencies too far."
    return Panel("Applications", summary, rows=rows, more=len(known) - len(rows))


def _row(group: AppGroup, places: NodePlaces, nodes: NodeView) -> PanelRow:
    near = far = pairs = 0
    for workload, dependencies in group.dependencies.items():
        users = _by_place(group, workload, places, nodes)
        for each in dependencies:
            used = _by_place(group, each.workload, places, nodes)
            for place in np.flatnonzero(used).tolist():
                links, pods = places.links_to(place), int(used[place])
                near += int(users[links.are_near(each.max_cost)].sum()) * pods
                far += int(users[links.are_far(each.max_cost)].sum()) * pods
            pairs += int(users.sum()) * int(used.sum())
    order = sorted(group.order, key=lambda name: (group.order[name], name))
    meter = PanelMeter(
        "pairs of pods within maxNetworkCost",
        near / pairs if pairs else 1.0,
        f"{near} of {pairs}",
    )
    return PanelRow(
        f"{group.namespace}/{group.name}",
        state="too far" if far else "near" if pairs else "",
        tone="warm" if far else "good" if pairs else "",
        text=f"Placed in this order: {', '.join(order)}.",
        meters=(meter,),
    )


def _by_place(
    group: AppGroup, workload: str, places: NodePlaces, nodes: NodeView
) -> NDArray[np.intp]:
    """Return the number of placed pods of a workload in each place."""
    column = nodes.pods.count(pods_of(group.name, workload)).column
    found = np.bincount(places.place_of, weights=column, minlength=len(places.names))
    return found.astype(np.intp)
