"""The guided search finds what a search without shortcuts finds, and takes few steps."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubesched.api import ResourceClaim
from kubesched.scheduler.plugins.dynamic_resources import device_search
from kubesched.scheduler.plugins.dynamic_resources.device_search_steps import (
    MOST_STEPS,
    STEPS_PER_TURN,
    SearchBudget,
)
from kubesched.scheduler.plugins.dynamic_resources.request_matching import DeviceDemand, can_be_met
from kubesched.testing import make_node
from tests.counted_calls import count_calls
from tests.scheduler.plugins.dynamic_resources.device_objects import (
    DRIVER,
    DeviceHarness,
    claim,
    device,
    device_class,
    exactly,
    pod_with,
    slice_of,
)
from tests.scheduler.plugins.dynamic_resources.plain_search import (
    Ask,
    FailingSelectorError,
    Rule,
    Values,
    plain_search,
)

CLASS = device_class("k")  # no selector: only steps of the search count
NO_FIT = "cannot allocate all claims"
ATTRIBUTES = ("a", "b", "x")
X = f'device.attributes["{DRIVER}"].x'


def _selects_all(_: Values) -> bool:
    return True


def _selects_one(values: Values) -> bool:
    if "x" not in values:
        raise FailingSelectorError
    return values["x"] == 1


SELECTORS: dict[str, Any] = {"": _selects_all, f"{X} == 1": _selects_one}


class RandomClaims:
    """Some devices and claims, for both searches."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        lacks = rng.choice([0.0, 0.0, 0.1])
        span = rng.choice([1, 2, 4, 9])
        self.devices: list[Values] = [
            {name: rng.randint(0, span) for name in ATTRIBUTES if rng.random() >= lacks}
            for _ in range(rng.randint(1, 8))
        ]
        self.claims: list[ResourceClaim] = []
        self.asks: list[tuple[list[list[Ask]], list[Rule]]] = []
        for number in range(rng.choice([1, 1, 1, 2])):
            self._add_claim(rng, f"c{number}")

    def _add_claim(self, rng: random.Random, name: str) -> None:
        requests: list[Any] = []
        asks: list[list[Ask]] = []
        for number in range(rng.randint(1, 4)):
            alternatives = rng.choice([1, 1, 1, 2])
            written, read = [], []
            for _ in range(alternatives):
                count, selector = rng.choice([1, 1, 2, 3]), rng.choice([*SELECTORS, ""])
                written.append(exactly(count, *([selector] if selector else [])))
                read.append(Ask(f"r{number}", count, SELECTORS[selector]))
            requests.append(written if alternatives > 1 else written[0])
            asks.append(read)
        rules, constraints = [], []
        for _ in range(rng.randint(0, 3)):
            attribute = rng.choice(ATTRIBUTES)
            is_distinct = rng.random() < 0.3
            names = [f"r{n}" for n in range(len(requests)) if rng.random() < 0.6]
            kind = "distinctAttribute" if is_distinct else "matchAttribute"
            constraints.append({kind: f"{DRIVER}/{attribute}", "requests": names})
            rules.append(Rule(attribute, is_distinct, frozenset(names)))
        self.claims.append(claim(name, *requests, constraints=constraints))
        self.asks.append((asks, rules))

    def allocate(self) -> list[list[str]] | str:
        """Return what the plugin finds."""
        return node_with(self.devices).allocate(*self.claims)

    def expected(self) -> list[list[str]] | str:
        """Return what the plain search finds, in the same form."""
        try:
            found = plain_search(self.asks, self.devices)
        except FailingSelectorError:
            return "error"
        if found is None:
            return NO_FIT
        return [[f"{name}:p/d{place:04}" for name, place in each] for each in found]


def node_with(devices: list[Values]) -> DeviceHarness:
    each = [device(f"d{place:04}", attributes=values) for place, values in enumerate(devices)]
    count = -(-len(each) // 128)
    slices = [
        slice_of(*each[part * 128 : part * 128 + 128], name=f"s{part:03}", count=count)
        for part in range(count)
    ]
    return DeviceHarness(CLASS, *slices)


@pytest.mark.parametrize("begin", range(0, 3000, 300))
def test_the_first_solution_is_that_of_a_search_without_shortcuts(
    begin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_search, "MOST_STEPS", 1_000_000)
    for seed in range(begin, begin + 300):
        case = RandomClaims(seed)
        expected = case.expected()
        for steps_without_guide in (-1, 1_000_000):
            monkeypatch.setattr(device_search, "STEPS_WITHOUT_GUIDE", steps_without_guide)
            found = case.allocate()
            if expected == "error":
                assert "no such key: x" in found, seed
            else:
                assert _without_alternatives(found) == expected, seed


def _without_alternatives(found: list[list[str]] | str) -> list[list[str]] | str:
    """Remove the names of alternatives: `r0/s1:p/d0` is `r0:p/d0`."""
    if isinstance(found, str):
        return found
    return [
        [f"{each.split(':')[0].split('/')[0]}:{each.split(':')[1]}" for each in result]
        for result in found
    ]


MATCH_A = {"matchAttribute": f"{DRIVER}/a"}
MATCH_B = {"matchAttribute": f"{DRIVER}/b"}
DISTINCT_A = {"distinctAttribute": f"{DRIVER}/a"}


def named(constraint: dict[str, Any], *requests: int) -> dict[str, Any]:
    return {**constraint, "requests": [f"r{each}" for each in requests]}


def spread_values(count: int, **modulo: int) -> list[Values]:
    """Return devices whose attributes repeat with a given period."""
    return [{name: place % of for name, of in modulo.items()} for place in range(count)]


ONES = [exactly(1) for _ in range(20)]
# Claims that no node can meet: without counting, each takes a search of years.
HOPELESS: dict[str, tuple[list[Values], ResourceClaim]] = {
    "20 of 40 devices with different values": (
        spread_values(40, a=40),
        claim("c", exactly(20), constraints=[MATCH_A]),
    ),
    "20 of 5,000 devices with different values": (
        spread_values(5_000, a=5_000),
        claim("c", exactly(20), constraints=[MATCH_A]),
    ),
    "20 of 5,000 devices, 19 of each value": (
        spread_values(4_997, a=263),
        claim("c", exactly(20), constraints=[MATCH_A]),
    ),
    "20 requests for one device each": (
        spread_values(300, a=20),
        claim("c", *ONES, constraints=[MATCH_A]),
    ),
    "two constraints, each of which can be met": (
        [{"a": place // 40, "b": place % 40} for place in range(1_600)],
        claim("c", exactly(20), constraints=[MATCH_A, MATCH_B]),
    ),
    "constraints that overlap in one request": (
        [{"a": place // 10, "b": place % 10} for place in range(100)],
        claim("c", *ONES[:5], exactly(2), *ONES[:5], constraints=[
            named(MATCH_A, 0, 1, 2, 3, 4, 5), named(MATCH_B, 5, 6, 7, 8, 9, 10)]),
    ),
    "20 requests for devices with 19 different values": (
        spread_values(40, a=19),
        claim("c", *ONES, constraints=[DISTINCT_A]),
    ),
    "values that match within five requests and differ between them": (
        [{"a": place % 4, "b": place % 10} for place in range(40)],
        claim("c", *ONES[:10], constraints=[named(DISTINCT_A, *range(5)), MATCH_B]),
    ),
    "more requests than devices that differ": (
        spread_values(19, a=19),
        claim("c", *ONES),
    ),
    "two values for three groups of requests": (
        [{"a": place % 2, "b": place} for place in range(20)],
        claim("c", *(exactly(7) for _ in range(3)), constraints=[
            named(MATCH_A, 0), named(MATCH_A, 1), named(MATCH_A, 2)]),
    ),
    "half of the requests take what the other half needs": (
        [{"x": int(place < 9), "a": place} for place in range(29)],
        claim("c", *ONES[:10], *(exactly(1, f"{X} == 1") for _ in range(10))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HOPELESS)
def test_impossible_claims_are_detected_in_few_steps(case: str) -> None:
    devices, wanted = HOPELESS[case]
    harness = node_with(devices)
    budget = harness.plugin.filtering.budget
    assert harness.allocate(wanted) == NO_FIT
    assert budget.spent < MOST_STEPS


def test_impossible_claims_are_refused_by_the_plain_search() -> None:
    # The same patterns with few devices, where every combination can be tried.
    asks = [[Ask("r0", 3, _selects_all)]]
    assert plain_search([(asks, [Rule("a", False, frozenset())])], spread_values(8, a=4)) is None
    assert plain_search([(asks, [Rule("a", False, frozenset())])], spread_values(9, a=4))


def test_a_claim_that_just_fits_is_allocated() -> None:
    devices = [*spread_values(4_997, a=263), {"a": 262}]
    found = node_with(devices).allocate(claim("c", exactly(20), constraints=[MATCH_A]))
    assert found == [[f"r0:p/d{262 + 263 * each:04}" for each in range(18)]
                     + ["r0:p/d4996", "r0:p/d4997"]]  # fmt: skip


def colouring(edges: int, colours: int, seed: int) -> tuple[list[Values], ResourceClaim]:
    """Return a hard search: requests are edges of a graph, constraints its corners."""
    rng = random.Random(seed)
    pairs = [(first, second) for first in range(colours) for second in range(colours)]
    devices: list[Values] = [
        {"a": first, "b": second, "x": place}
        for place, (first, second) in enumerate(pairs * 4)
        if (first * 7 + second * 3 + place) % 5
    ]
    constraints = []
    for _ in range(edges):
        one, other = rng.sample(range(24), 2)
        constraints.append(named(rng.choice([MATCH_A, MATCH_B]), one, other))
    return devices, claim("c", *(exactly(1) for _ in range(24)), constraints=constraints)


@pytest.mark.parametrize("seed", range(6))
def test_no_search_takes_more_steps_than_allowed(seed: int) -> None:
    devices, wanted = colouring(30, 6, seed)
    harness = node_with(devices)
    harness.allocate(wanted)
    assert harness.plugin.filtering.budget.spent <= 2 * MOST_STEPS


def test_a_search_beyond_the_limit_fails_and_is_not_repeated() -> None:
    devices, wanted = colouring(30, 6, 2)
    harness = node_with(devices)
    assert harness.allocate(wanted) == "node n: timed out trying to allocate devices"
    budget = harness.plugin.filtering.budget
    assert MOST_STEPS < budget.spent < 2 * MOST_STEPS
    pod = pod_with(wanted)
    assert harness.filter(pod).message == "node n: timed out trying to allocate devices"
    assert budget.spent == 0


def test_an_attempt_that_may_pause_continues_where_it_stopped() -> None:
    expression = f"{X} >= 0"
    harness = node_with([{"x": place} for place in range(2_000)])
    wanted = claim("c", exactly(1, expression, f"{X} == 1999"))
    harness.handle.objects.put(wanted)
    turns = 0
    while True:
        harness.may_pause = True
        status = harness.pre_filter(pod_with(wanted))
        assert harness.plugin.filtering.budget.spent < 2 * STEPS_PER_TURN
        if not harness.state.is_paused:
            break
        turns += 1
    assert status.is_success
    assert 2 <= turns <= 20
    assert harness.allocate(wanted) == [["r0:p/d1999"]]


def test_a_budget_without_pauses_has_no_end() -> None:
    budget = SearchBudget()
    budget.begin(may_pause=False)
    budget.charge(10 * STEPS_PER_TURN)
    budget.check()


@pytest.mark.parametrize("seed", range(200))
def test_demands_can_be_met_if_every_subset_of_them_has_enough_devices(seed: int) -> None:
    rng = random.Random(seed)
    demands = [
        DeviceDemand(rng.randint(1, 3), rng.getrandbits(7)) for _ in range(rng.randint(1, 5))
    ]
    expected = True
    for chosen in range(1, 1 << len(demands)):  # the marriage theorem
        among = [each for place, each in enumerate(demands) if chosen >> place & 1]
        union = 0
        for each in among:
            union |= each.devices
        expected &= union.bit_count() >= sum(each.need for each in among)
    assert can_be_met(demands, lambda _: None) == expected


def test_the_devices_of_many_slices_are_prepared_in_several_turns() -> None:
    """Every PreFilter is a turn of the event loop; one of all slices would take 900,000 calls."""
    count = 600
    slices = [
        slice_of(*[device(f"d{n}") for n in range(128)], pool=f"p{each}", node=f"n{each}")
        for each in range(count)
    ]
    nodes = [make_node(f"n{each}") for each in range(count)]
    harness = DeviceHarness(device_class(), *slices, *nodes)
    harness.may_pause = True
    wanted = claim("c", exactly(20))
    harness.handle.objects.put(wanted)
    statuses, calls = [], []
    while not statuses or harness.state.is_paused:
        calls.append(count_calls(lambda: statuses.append(harness.pre_filter(pod_with(wanted)))))
    assert statuses[-1].is_success
    assert max(calls) < 500_000, calls
    rows = harness.plugin.devices.rows(harness.handle.snapshot.nodes)
    assert len(rows.live()) == count
