"""A plan as one HTML file: the nodes before and after, and a slider that shows the waves."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_key
from kubesched.api.resource_amounts import Resources
from kubesched.explain.snapshot import Snapshot
from kubesched.framework import PodInfo
from kubesched.plan.plan_results import Consolidation
from kubesched.plan.reading.pinned_pods import follows_node

__all__ = ["plan_page"]

_COUNTED: Final = ("cpu", "memory")

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Plan</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: #1b1f24; background: #fff; }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1.1rem; margin-bottom: .3rem; }}
.map {{ display: flex; flex-wrap: wrap; gap: 3px; }}
.node {{ width: 22px; height: 22px; border: 1px solid #8c959f; background: #fff; }}
.node.empty {{ border-style: dashed; }}
table {{ border-collapse: collapse; }} td, th {{ text-align: left; padding: .1rem .8rem .1rem 0; }}
input {{ width: 100%; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #0d1117; color: #e6edf3; }}
  .node {{ background: #0d1117; }} }}
</style></head><body>
<h1>{title}</h1>
<p>{summary}</p>
<p>A square is a node. The darker it is, the larger the share of its cpu or memory that pods
request; a dashed one has no pods that keep it in use. Point at a node to read its name.</p>
<h2>Before</h2><div class="map" id="before"></div>
<h2>After</h2><div class="map" id="after"></div>
<h2><label for="wave">Waves: <output id="shown"></output></label></h2>
<input type="range" id="wave" min="0" max="{waves}" value="0">
<div class="map" id="now"></div>
<table id="moves"><thead><tr><th>Pod</th><th>From</th><th>To</th></tr></thead>
<tbody></tbody></table>
<script type="application/json" id="plan">{document}</script>
<script>
"use strict";
const plan = JSON.parse(document.getElementById("plan").textContent);
function draw(id, wave) {{
  const map = document.getElementById(id);
  map.replaceChildren(...plan.nodes.map((name, n) => {{
    const box = document.createElement("div"), [share, pods] = plan.waves[wave][n];
    box.className = pods ? "node" : "node empty";
    if (pods) box.style.background = `hsl(212 70% ${{92 - 60 * Math.min(share, 1)}}%)`;
    box.title = `${{name}}: ${{pods}} pods, ${{Math.round(100 * share)}} % requested`;
    return box;
  }}));
}}
const slider = document.getElementById("wave");
function show() {{
  const wave = Number(slider.value);
  draw("now", wave);
  const used = plan.waves[wave].filter(([, pods]) => pods).length;
  document.getElementById("shown").value = wave
    ? `after wave ${{wave}}, ${{used}} nodes in use` : `before the first, ${{used}} nodes in use`;
  document.querySelector("#moves tbody").replaceChildren(
    ...plan.moves.filter((move) => move.wave === wave).map((move) => {{
      const row = document.createElement("tr");
      for (const text of [move.pod, move.from, move.to]) {{
        row.insertCell().textContent = text;
      }}
      return row;
    }}));
}}
draw("before", 0); draw("after", plan.waves.length - 1);
slider.addEventListener("input", show); show();
</script></body></html>
"""


def plan_page(plan: Consolidation, snapshot: Snapshot, summary: Sequence[str]) -> str:
    """Return the page. It needs no other files and no network."""
    nodes = [node for node in snapshot.model.snapshot.nodes if node.node is not None]
    names = sorted(node.name for node in nodes)
    room = {node.name: Resources.from_resource_list(node.node.status.allocatable) for node in nodes}
    taken = {name: dict.fromkeys(_COUNTED, 0) for name in names}
    pods = dict.fromkeys(names, 0)
    infos = {pod_key(info.pod): info for node in nodes for info in node.pods}
    for info in infos.values():
        _add(taken, info, info.pod.spec.node_name, 1)
        pods[info.pod.spec.node_name] += _counts(info.pod)

    def state() -> list[tuple[float, int]]:
        return [(_share(taken[name], room[name]), pods[name]) for name in names]

    waves = [state()]
    for number in range(1, len(plan.waves) + 1):
        for move in plan.moves:
            if move.wave == number:
                _add(taken, infos[move.pod], move.source, -1)
                _add(taken, infos[move.pod], move.target, 1)
                pods[move.source] -= 1
                pods[move.target] += 1
        waves.append(state())
    document = {
        "nodes": names,
        "waves": waves,
        "moves": [
            {"pod": move.pod, "from": move.source, "to": move.target, "wave": move.wave}
            for move in plan.moves
        ],
    }
    text = msgspec.json.encode(document).decode().replace("<", "\\u003c")
    title = f"{plan.nodes} nodes now, {plan.planned_nodes} in the plan, {plan.lower_bound} at least"
    return _PAGE.format(
        title=html.escape(title),
        summary="<br>".join(html.escape(line) for line in summary),
        waves=len(plan.waves),
        document=text,
    )


def _counts(pod: Pod) -> int:
    """Whether the pod keeps its node in use."""
    return 0 if follows_node(pod) else 1


def _add(taken: Mapping[str, dict[str, int]], info: PodInfo, name: str, sign: int) -> None:
    for resource in _COUNTED:
        taken[name][resource] += sign * info.requested.amount(resource)


def _share(taken: Mapping[str, int], room: Resources) -> float:
    shares = [taken[name] / max(room.amount(name), 1) for name in _COUNTED]
    return round(max(shares), 3)
