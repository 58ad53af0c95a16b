from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client import Histogram as ReferenceHistogram

from kubesched.foundation.metrics.exposition import render
from kubesched.foundation.metrics.instruments import (
    FamilyGroup,
    HistogramMetric,
    exponential_buckets,
)


class Group(FamilyGroup):
    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self.doors = self.counter("doors_total", "Doors opened.", "room")
        self.knocks = self.counter("knocks_total", "Knocks.").labels()
        self.people = self.gauge("people", "People inside.", "room")
        self.level = self.gauge("level", "Water level.").labels()
        self.waits = self.histogram("wait_seconds", "Waiting.", (1.0, 2.0), "room")
        self.naps = self.histogram("nap_seconds", "Naps.", (1.0,)).labels()
        registry.register(self)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def group(registry: CollectorRegistry) -> Group:
    return Group(registry)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


def test_bare_metrics_exist_from_the_start_and_labelled_ones_on_first_use(
    group: Group, registry: CollectorRegistry
) -> None:
    assert value(registry, "knocks_total") == 0
    assert value(registry, "nap_seconds_count") == 0
    assert value(registry, "doors_total", room="hall") is None
    group.doors.labels("hall")
    assert value(registry, "doors_total", room="hall") == 0


def test_updates_show(group: Group, registry: CollectorRegistry) -> None:
    group.doors.labels("hall").inc()
    group.doors.labels("hall").inc(3)
    group.people.labels("hall").set(5)
    group.people.labels("hall").inc()
    group.people.labels("hall").dec(2)
    group.waits.labels("hall").observe_ns(1_500_000_000)
    assert value(registry, "doors_total", room="hall") == 4
    assert value(registry, "people", room="hall") == 4
    assert value(registry, "wait_seconds_sum", room="hall") == 1.5
    assert value(registry, "wait_seconds_bucket", room="hall", le="1") == 0
    assert value(registry, "wait_seconds_bucket", room="hall", le="2") == 1


def test_the_wrong_number_of_label_values_is_an_error(group: Group) -> None:
    with pytest.raises(ValueError, match="doors_total: 2 label values for"):
        group.doors.labels("hall", "kitchen")


def test_reset_drops_labelled_series_and_restarts_bare_counters_only(
    group: Group, registry: CollectorRegistry
) -> None:
    kept = group.doors.labels("hall")
    kept.inc()
    group.knocks.inc()
    group.level.set(7)
    group.people.labels("hall").inc()
    group.waits.labels("hall").observe(1)
    group.naps.observe(1)
    group.reset()
    assert value(registry, "doors_total", room="hall") is None
    assert value(registry, "people", room="hall") is None
    assert value(registry, "wait_seconds_count", room="hall") is None
    assert value(registry, "knocks_total") == 0
    assert value(registry, "level") == 7
    assert value(registry, "nap_seconds_count") == 1


def test_a_stored_metric_child_continues_after_a_reset(
    group: Group, registry: CollectorRegistry
) -> None:
    kept = group.doors.labels("hall")
    kept.inc(5)
    group.reset()
    kept.inc()
    assert value(registry, "doors_total", room="hall") == 1


def test_a_name_cannot_be_registered_twice(group: Group, registry: CollectorRegistry) -> None:
    with pytest.raises(ValueError, match="Duplicated"):
        Group(registry)


def test_buckets_grow_by_repeated_multiplication() -> None:
    assert exponential_buckets(1, 2, 5) == (1, 2, 4, 8, 16)
    assert exponential_buckets(0.00001, 1.5, 2) == (1e-05, 1.5000000000000002e-05)


@given(st.lists(st.one_of(st.floats(0, 20), st.sampled_from([0.1, 0.2, 1.0, 7.5]))))
def test_histograms_agree_with_prometheus_client(observations: list[float]) -> None:
    bounds = (0.1, 0.2, 1.0, 7.5)
    registry = CollectorRegistry()
    reference = ReferenceHistogram("h", "h", buckets=bounds, registry=registry)
    ours = HistogramMetric(bounds)
    for observation in observations:
        reference.observe(observation)
        ours.observe(observation)
    for suffix, labels, found in ours.samples():
        if suffix == "_bucket":
            labels = {"le": str(float(labels["le"])).replace("inf", "+Inf")}
        assert registry.get_sample_value(f"h{suffix}", labels) == found


@given(
    st.lists(st.one_of(st.integers(0, 10**12), st.sampled_from([10**6, 10**6 + 1, 2 * 10**6]))),
)
def test_a_batch_of_durations_counts_like_single_ones(durations_ns: list[int]) -> None:
    bounds = exponential_buckets(0.001, 2, 15)
    together, apart = HistogramMetric(bounds), HistogramMetric(bounds)
    for duration_ns in durations_ns:
        together.observe_ns(duration_ns)
        apart.observe(duration_ns / 1_000_000_000)
    assert together.counts == apart.counts
    assert together.sum == pytest.approx(apart.sum)
    assert together.count == len(durations_ns)


def test_durations_are_not_retained_forever_and_may_come_after_a_reset() -> None:
    histogram = HistogramMetric((0.5, 1.0))
    note_ns = histogram.note_ns
    for _ in range(10_000):
        histogram.observe_ns(1_000_000)
    assert len(histogram._noted_ns) < 1_000
    note_ns(2_000_000_000)
    assert list(histogram.counts) == [10_000, 0, 1]
    note_ns(1)
    histogram.zero()
    assert histogram.is_zero
    note_ns(700_000_000)
    assert list(histogram.counts) == [0, 1, 0]
    assert histogram.sum == pytest.approx(0.7)


def test_a_counter_need_not_end_in_total(registry: CollectorRegistry) -> None:
    group = FamilyGroup()
    group.counter("attempts", "Attempts.", "result").labels("ok").inc()
    registry.register(group)
    assert render(registry) == (
        '# HELP attempts Attempts.\n# TYPE attempts counter\nattempts{result="ok"} 1\n'
    )


def test_the_text_form(group: Group, registry: CollectorRegistry) -> None:
    group.waits.labels('a "room"').observe(1e-6)
    group.doors.labels("b").inc(2_000_000)
    group.doors.labels("a").inc(0.5)
    text = render(registry)
    assert (
        "# HELP doors_total Doors opened.\n# TYPE doors_total counter\n"
        'doors_total{room="a"} 0.5\ndoors_total{room="b"} 2e+06\n'
    ) in text
    assert (
        '# TYPE wait_seconds histogram\nwait_seconds_bucket{room="a \\"room\\"",le="1"} 1\n'
        'wait_seconds_bucket{room="a \\"room\\"",le="2"} 1\n'
        'wait_seconds_bucket{room="a \\"room\\"",le="+Inf"} 1\n'
        'wait_seconds_sum{room="a \\"room\\""} 1e-06\nwait_seconds_count{room="a \\"room\\""} 1\n'
    ) in text
    assert "people" not in text  # no series, no family
