"""Flags about metrics and logs (docs/reference/01 §11.2)."""

from __future__ import annotations

from typing import Final

from kubesched.api.quantity import ZERO
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.flag_parsing import Flag, FlagGroup
from kubesched.foundation.util.flag_values import BOOL, DURATION, STRING, STRING_LIST, STRING_MAP
from kubesched.scheduler.config.versions import BINARY_VERSION
from kubesched.scheduler.server.options.flag_kinds import LEVEL, MODULE_LEVELS, QUANTITY

__all__ = ["DEFAULT_LOG_FORMAT", "LOGS", "METRICS"]

DEFAULT_LOG_FORMAT: Final = "text"
_ALPHA: Final = "ALPHA, needs the feature gate LoggingAlphaOptions:"

METRICS: Final = FlagGroup(
    "metrics",
    (
        Flag(
            "show-hidden-metrics-for-version",
            STRING,
            "",
            "Also show the metrics that this release hides because they will be removed; "
            f"the one value is {BINARY_VERSION.before()}.",
        ),
        Flag("disabled-metrics", STRING_LIST, (), "Full names of metrics to leave out."),
        Flag(
            "allow-metric-labels",
            STRING_MAP,
            {},
            "Values that a label of a metric may have, others become 'unexpected': "
            "metric,label='v1,v2'. May be repeated.",
        ),
        Flag(
            "allow-metric-labels-manifest",
            STRING,
            "",
            'YAML file with the same: a map from "metric,label" to "v1,v2".',
        ),
    ),
)

LOGS: Final = FlagGroup(
    "logs",
    (
        Flag(
            "logging-format",
            STRING,
            DEFAULT_LOG_FORMAT,
            "Form of log lines: 'text', or 'json' (BETA).",
        ),
        Flag(
            "log-flush-frequency",
            DURATION,
            5 * SECOND,
            "Longest time that log lines are held back.",
        ),
        Flag("v", LEVEL, 0, "How much to log; more detail with higher numbers.", shorthand="v"),
        Flag(
            "vmodule",
            MODULE_LEVELS,
            (),
            "Another -v for some files, in text format only: queue*=6,backend/*=4.",
        ),
        Flag(
            "log-text-split-stream",
            BOOL,
            False,
            f"{_ALPHA} in text format, errors go to standard error and the rest to standard "
            "output.",
        ),
        Flag(
            "log-json-split-stream",
            BOOL,
            False,
            f"{_ALPHA} in JSON format, errors go to standard error and the rest to standard "
            "output.",
        ),
        Flag(
            "log-text-info-buffer-size",
            QUANTITY,
            ZERO,
            f"{_ALPHA} in text format with split streams, hold back this much (512, 1K, 2Ki).",
        ),
        Flag(
            "log-json-info-buffer-size",
            QUANTITY,
            ZERO,
            f"{_ALPHA} in JSON format with split streams, hold back this much (512, 1K, 2Ki).",
        ),
    ),
)
