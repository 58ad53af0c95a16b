"""Metrics of extension points and plugins: durations, and counts of calls.

docs/reference/04 §19. An attempt takes well below 100 µs, so metric children are cached where they
are used, and only one attempt in ten times its plugins one by one.
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
_ATTEMPTS_NOTED = 512  # attempts between two updates of the histograms
_COUNTED_POINTS = (
    ExtensionPoint.PRE_FILTER,
    ExtensionPoint.FILTER,
    ExtensionPoint.PRE_SCORE,
    ExtensionPoint.SCORE,
)


class PluginTimer:
    """Times single plugins; stored in the state of the attempts that are sampled."""

    def __init__(self, metrics: SchedulerMetrics, now_ns: Callable[[], int]) -> None:
        self._durations = metrics.plugin_execution_duration_seconds
        # By plugin, point and code: a function that records a duration.
        self._notes: dict[tuple[str, str, int], Callable[[int], None]] = {}
        self.noted: list[HistogramMetric] = []
        self.now_ns = now_ns

    def observe(self, plugin: str, point: str, code: Code, started_ns: int) -> None:
        """Record the duration of a plugin's call that began at `started_ns` and ends now."""
        duration_ns = self.now_ns() - started_ns
        # A plain number is hashed faster than a member of an enum.
        key = (plugin, point, code.numerator)
        note_ns = self._notes.get(key)
        if note_ns is None:
            child = self._durations.labels(plugin, point, code.label)
            note_ns = self._notes[key] = child.note_ns
            self.noted.append(child)
        note_ns(duration_ns)


class PluginTiming:
    """Times one call of a plugin, as a `with` block that sets `code` to the outcome."""

    __slots__ = ("_plugin", "_point", "_started_ns", "_timer", "code")

    def __init__(self, timer: PluginTimer | None, plugin: str, point: str) -> None:
        """Without a timer, nothing is timed."""
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
    """Return the timing of one call of a plugin; it does nothing if the attempt is not sampled."""
    timer: PluginTimer | None = state.plugin_timer
    return _UNTIMED if timer is None else PluginTiming(timer, plugin.name, point)


class PointTiming:
    """Times one run of an extension point, as a `with` block that sets `code` to the outcome."""

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
        # By point and code: a function that records a duration.
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
        """Return a timer for one attempt in ten, and None for the others."""
        self._attempts += 1
        if not self._attempts % _ATTEMPTS_NOTED:
            for child in (*self._noted, *self._timer.noted, *self._hint_durations):
                child.settle()
        return self._timer if self._draw() < _SAMPLED else None

    @property
    def timer(self) -> PluginTimer:
        """The timer, for calls that are always timed."""
        return self._timer

    def timing(self, point: str) -> PointTiming:
        """Time an extension point with a `with` block. An exception counts as an error."""
        return PointTiming(self, point)

    def observe_hint(self, was_used: bool, duration_ns: int) -> None:
        """Record whether cached answers of equal pods were enough to choose a node."""
        self._note_hint[was_used](duration_ns)
        self._hint_results[was_used].value += 1

    def observe(self, point: str, code: Code, started_ns: int) -> int:
        """Record the duration of a point that began at `started_ns` and ends now; return now."""
        now_ns = self.now_ns()
        self._notes[point][code](now_ns - started_ns)
        return now_ns

    def observe_nothing(self, point: str) -> None:
        """Record an extension point without plugins, which counts as well."""
        self._notes[point][Code.SUCCESS](0)

    def _notes_of(self, point: str) -> list[Callable[[int], None]]:
        return [partial(self._note_first, point, code) for code in Code]

    def _note_first(self, point: str, code: Code, duration_ns: int) -> None:
        child = self._durations.labels(point, code.label, self._profile)
        self._noted.append(child)
        note_ns = self._notes[point][code] = child.note_ns
        note_ns(duration_ns)

    def count_filtered(self, plugins: Iterable[Plugin], rejection: Status | None) -> None:
        """Count the filters that were called for one node: up to the first rejection, if any."""
        counters = self.filters
        last = None if rejection is None else rejection.plugin
        for plugin in plugins:
            counters[plugin.name].value += 1
            if plugin.name == last:
                return
