"""How long extension points and plugins take, and how often plugins are asked.

docs/reference/04 §19. An attempt has about 100 µs, so children are kept where they are used, and
only one attempt in ten times its plugins one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from kubesched.foundation.metrics.instruments import CounterMetric, HistogramMetric, KeptChildren
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.randomness import derive
from kubesched.framework import Code, CycleState, ExtensionPoint, Plugin, Status
from kubesched.scheduler.runtime.plugin_set import ProfilePlugins

__all__ = ["PluginTimer", "PluginTiming", "PointMetrics", "PointTiming", "timing_of"]

_SAMPLED = 0.1
_ATTEMPTS_NOTED = 512  # before what they took is put into histograms
_COUNTED_POINTS = (
    ExtensionPoint.PRE_FILTER,
    ExtensionPoint.FILTER,
    ExtensionPoint.PRE_SCORE,
    ExtensionPoint.SCORE,
)


class PluginTimer:
    """Times single plugins; held by the state of an attempt that was chosen for it."""

    def __init__(self, metrics: SchedulerMetrics, now_ns: Callable[[], int]) -> None:
        self._durations = metrics.plugin_execution_duration_seconds
        # By plugin, point and code: takes a duration.
        self._notes: dict[tuple[str, str, int], Callable[[int], None]] = {}
        self.noted: list[HistogramMetric] = []
        self.now_ns = now_ns

    def observe(self, plugin: str, point: str, code: Code, started_ns: int) -> None:
        """Note what a plugin took that was asked at `started_ns` and has just answered."""
        duration_ns = self.now_ns() - started_ns
        # As a plain number, whose hash costs less than that of an enum's member.
        key = (plugin, point, code.numerator)
        note_ns = self._notes.get(key)
        if note_ns is None:
            child = self._durations.labels(plugin, point, code.label)
            note_ns = self._notes[key] = child.note_ns
            self.noted.append(child)
        note_ns(duration_ns)


class PluginTiming:
    """One call of a plugin, as a `with` block; `code` is what came of it."""

    __slots__ = ("_plugin", "_point", "_started_ns", "_timer", "code")

    def __init__(self, timer: PluginTimer | None, plugin: str, point: str) -> None:
        """Time nothing without a timer."""
        self._timer = timer
        self._plugin, self._point = plugin, point
        self._started_ns = 0
        self.code = Code.SUCCESS

    def __enter__(self) -> PluginTiming:
        if self._timer is not None:
            self._started_ns = self._timer.now_ns()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._timer is not None:
            code = self.code if error is None else Code.ERROR
            self._timer.observe(self._plugin, self._point, code, self._started_ns)


_UNTIMED = PluginTiming(None, "", "")


def timing_of(state: CycleState, plugin: Plugin, point: str) -> PluginTiming:
    """For one call of a plugin, which is timed if the attempt was chosen for it."""
    timer: PluginTimer | None = state.plugin_timer
    return _UNTIMED if timer is None else PluginTiming(timer, plugin.name, point)


class PointTiming:
    """One run of an extension point, as a `with` block; `code` is what came of it."""

    __slots__ = ("_metrics", "_point", "_started_ns", "code")

    def __init__(self, metrics: PointMetrics, point: str) -> None:
        self._metrics, self._point = metrics, point
        self._started_ns = 0
        self.code = Code.SUCCESS

    def __enter__(self) -> PointTiming:
        self._started_ns = self._metrics.now_ns()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        code = self.code if error is None else Code.ERROR
        self._metrics.observe(self._point, code, self._started_ns)


class PointMetrics:
    """The metrics of one profile's extension points."""

    def __init__(
        self,
        metrics: SchedulerMetrics,
        profile: str,
        plugins: ProfilePlugins,
        now_ns: Callable[[], int],
    ) -> None:
        self.now_ns = now_ns
        self._durations = metrics.framework_extension_point_duration_seconds
        self._profile = profile
        # By point and code: takes a duration.
        self._notes: KeptChildren[str, list[Callable[[int], None]]] = KeptChildren(self._notes_of)
        self._noted: list[HistogramMetric] = []
        self._attempts = 0
        self._timer = PluginTimer(metrics, now_ns)
        self._draw = derive(0, "plugin-timer", profile).random
        self._hint_durations = [
            metrics.get_node_hint_duration_seconds.labels(hinted, profile)
            for hinted in ("no_hint", "hint")
        ]
        self._note_hint = [child.note_ns for child in self._hint_durations]
        self._hint_results = [
            metrics.batch_attempts_total.labels(profile, result)
            for result in ("no_hint", "hint_used")
        ]
        names = {point: [plugin.name for plugin in plugins.at(point)] for point in _COUNTED_POINTS}
        shown = {point.label: enabled for point, enabled in names.items()}
        metrics.show_plugin_evaluations(profile, shown)

        def counters(point: ExtensionPoint) -> dict[str, CounterMetric]:
            family = metrics.plugin_evaluation_total
            return {name: family.labels(name, point.label, profile) for name in names[point]}

        self.pre_filters = counters(ExtensionPoint.PRE_FILTER)
        self.filters = counters(ExtensionPoint.FILTER)
        self.pre_scores = counters(ExtensionPoint.PRE_SCORE)
        self.scores = counters(ExtensionPoint.SCORE)

    def sample(self) -> PluginTimer | None:
        """A timer for the plugins of one attempt in ten. To be called for each attempt."""
        self._attempts += 1
        if not self._attempts % _ATTEMPTS_NOTED:
            for child in (*self._noted, *self._timer.noted, *self._hint_durations):
                child.settle()
        return self._timer if self._draw() < _SAMPLED else None

    def timing(self, point: str) -> PointTiming:
        """Time a point: with `metrics.timing("Filter"): …`. An exception counts as an error."""
        return PointTiming(self, point)

    def observe_hint(self, was_used: bool, duration_ns: int) -> None:
        """Note whether what is kept from equal pods was enough to choose a node."""
        self._note_hint[was_used](duration_ns)
        self._hint_results[was_used].value += 1

    def observe(self, point: str, code: Code, started_ns: int) -> int:
        """Note what a point took that began at `started_ns` and ends now; return now."""
        now_ns = self.now_ns()
        self._notes[point][code](now_ns - started_ns)
        return now_ns

    def observe_nothing(self, point: str) -> None:
        """Note a point at which there was nobody to ask. It counts all the same."""
        self._notes[point][Code.SUCCESS](0)

    def _notes_of(self, point: str) -> list[Callable[[int], None]]:
        return [partial(self._note_first, point, code) for code in Code]

    def _note_first(self, point: str, code: Code, duration_ns: int) -> None:
        child = self._durations.labels(point, code.label, self._profile)
        self._noted.append(child)
        note_ns = self._notes[point][code] = child.note_ns
        note_ns(duration_ns)

    def count_filtered(self, plugins: Iterable[Plugin], rejection: Status | None) -> None:
        """Count a node that was shown to the plugins up to the one that rejected it, if any."""
        counters = self.filters
        last = None if rejection is None else rejection.plugin
        for plugin in plugins:
            counters[plugin.name].value += 1
            if plugin.name == last:
                return
