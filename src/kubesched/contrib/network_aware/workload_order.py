"""The order in which the workloads of an application are placed: topological sorting.

A workload comes before those that it depends on. Where workloads depend on each other in a circle,
the one that is first in the spec comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

__all__ = ["workload_order"]

# Workloads in the order of the spec, with the names of those that they depend on.
_Graph = Mapping[str, Sequence[str]]


def workload_order(algorithm: str, graph: _Graph) -> list[str]:
    """Order the workloads by an algorithm's name; KahnSort if the name is not known."""
    known = {
        name: list(dict.fromkeys(each for each in of if each in graph and each != name))
        for name, of in graph.items()
    }
    sort, arrange = _ALGORITHMS.get(algorithm, (_kahn, list))
    return arrange(sort(known))


def _kahn(graph: _Graph) -> list[str]:
    """Take workloads that no other one left depends on; the last one that became so first."""
    users = dict.fromkeys(graph, 0)
    for of in graph.values():
        for name in of:
            users[name] += 1
    left = dict.fromkeys(graph)
    ready = [name for name in reversed(list(graph)) if not users[name]]
    ordered = []
    while left:
        name = ready.pop() if ready else next(iter(left))
        if name not in left:
            continue
        del left[name]
        ordered.append(name)
        for other in graph[name]:
            users[other] -= 1
            if not users[other]:
                ready.append(other)
    return ordered


def _tarjan(graph: _Graph) -> list[str]:
    """Depth first: a workload comes before everything that can be reached from it."""
    seen: set[str] = set()
    finished: list[str] = []
    for start in reversed(list(graph)):
        if start in seen:
            continue
        seen.add(start)
        path = [(start, iter(graph[start]))]
        while path:
            name, rest = path[-1]
            other = next((each for each in rest if each not in seen), None)
            if other is None:
                finished.append(name)
                path.pop()
            else:
                seen.add(other)
                path.append((other, iter(graph[other])))
    return finished[::-1]


def _reverse(ordered: list[str]) -> list[str]:
    return ordered[::-1]


def _alternate(ordered: list[str]) -> list[str]:
    """The first, the last, the second, the last but one, and so on."""
    half = (len(ordered) + 1) // 2
    first, last = ordered[:half], ordered[half:][::-1]
    return [name for pair in zip(first, [*last, ""], strict=False) for name in pair if name]


_ALGORITHMS: Final[
    Mapping[str, tuple[Callable[[_Graph], list[str]], Callable[[list[str]], list[str]]]]
] = {
    "KahnSort": (_kahn, list),
    "TarjanSort": (_tarjan, list),
    "ReverseKahn": (_kahn, _reverse),
    "ReverseTarjan": (_tarjan, _reverse),
    "AlternateKahn": (_kahn, _alternate),
    "AlternateTarjan": (_tarjan, _alternate),
}
