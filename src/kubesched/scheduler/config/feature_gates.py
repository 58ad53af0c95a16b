"""Feature gates: their state, and the parser of `--feature-gates`.

docs/reference/01 §16. A `FeatureGates` is a value: setting gates gives a new one. Names are
checked, because a gate that does not exist would otherwise silently read as off.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Final

import msgspec

from kubesched.errors import ConfigError
from kubesched.foundation.util.flag_values import parse_bool
from kubesched.foundation.util.go_format import format_slice
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.config.feature_gate_history import HISTORY
from kubesched.scheduler.config.feature_gate_table import (
    DEPENDENCIES,
    GATES,
    LOCKED,
)
from kubesched.scheduler.config.versions import (
    BINARY_VERSION,
    COMPONENT,
    DEFAULT_EFFECTIVE_VERSION,
    EffectiveVersion,
    MinorVersion,
)

__all__ = [
    "DEFAULT_FEATURE_GATES",
    "FEATURES",
    "Feature",
    "FeatureGates",
    "Stage",
    "features_at",
    "parse_feature_gates",
]

_log = get_logger(__name__)


class Stage(Enum):
    """The stage of a feature; the value is its label in metrics."""

    PRE_ALPHA = "PREALPHA"  # the gate does not exist in this release
    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = ""
    DEPRECATED = "DEPRECATED"


class Feature(msgspec.Struct, frozen=True):
    """The stage and the default of a gate in one release."""

    name: str
    stage: Stage
    default: bool
    locked: bool = False
    depends_on: tuple[str, ...] = ()


# Each turns on or off all gates of its stage that are not set by name.
_ALL_OF_STAGE: Final = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}

FEATURES: Final[Mapping[str, Feature]] = {
    feature.name: feature
    for feature in (
        *(Feature(name, stage, default=False) for name, stage in _ALL_OF_STAGE.items()),
        *(
            Feature(name, Stage[stage], default, name in LOCKED, DEPENDENCIES.get(name, ()))
            for stage, default, names in GATES
            for name in names.split()
        ),
    )
}


@cache
def features_at(version: MinorVersion) -> Mapping[str, Feature]:
    """Return the gates of a release."""
    if version >= BINARY_VERSION:
        return FEATURES
    earlier = {name: _state_at(FEATURES[name], states, version) for name, states in HISTORY.items()}
    return {**FEATURES, **earlier}


def _state_at(
    feature: Feature, states: tuple[tuple[int, str, bool, bool], ...], version: MinorVersion
) -> Feature:
    stage, default, locked = Stage.PRE_ALPHA, False, False
    for since, name, on, is_locked in states:
        if version >= (BINARY_VERSION.major, since):
            stage, default, locked = Stage[name], on, is_locked
    return Feature(feature.name, stage, default, locked, feature.depends_on)


class FeatureGates:
    """The state of every feature gate in the emulated release.

    Raises:
        ConfigError: a gate does not exist, is locked, or needs another gate that is disabled. The
            text is the reference's, with every error except those after an unknown gate.
    """

    __slots__ = ("_enabled", "_features")

    def __init__(
        self,
        settings: Mapping[str, bool] | None = None,
        *,
        version: EffectiveVersion = DEFAULT_EFFECTIVE_VERSION,
    ) -> None:
        settings = {} if settings is None else settings
        self._features = features_at(version.emulation)
        _raise_all(list(_setting_errors(settings, self._features, version)))
        self._enabled = _resolve(settings, self._features)
        if settings:
            _raise_all(list(_dependency_errors(self._enabled, settings, version)))

    def enabled(self, name: str) -> bool:
        """Whether a feature is on. Raises KeyError for an unknown gate."""
        return self._enabled[name]

    def items(self) -> Iterator[tuple[Feature, bool]]:
        """Return every gate with its state, by name."""
        for name in sorted(self._features):
            yield self._features[name], self._enabled[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureGates) and self._enabled == other._enabled

    def __hash__(self) -> int:
        return hash(frozenset(self._enabled.items()))

    def __repr__(self) -> str:
        changed = {n: on for n, on in self._enabled.items() if on != self._features[n].default}
        return f"FeatureGates({changed!r})"


def parse_feature_gates(
    values: Iterable[str], *, version: EffectiveVersion = DEFAULT_EFFECTIVE_VERSION
) -> FeatureGates:
    """Build the gates from every use of `--feature-gates`, such as `A=true,kube:B=false`."""
    by_prefix: dict[str, list[str]] = {}
    for value in values:
        for setting in filter(None, value.split(",")):
            prefix, colon, rest = setting.partition(":")
            if colon:
                by_prefix.setdefault(prefix.strip(), []).append(rest)
            else:
                by_prefix.setdefault("", []).append(prefix)
    for prefix in by_prefix:
        if prefix not in {"", COMPONENT}:
            raise ConfigError(f"component not registered: {prefix}")
    if len(by_prefix) > 1:
        raise ConfigError(
            "set kube feature gates with default empty prefix or kube: prefix consistently, "
            "do not mix use"
        )
    settings = dict(map(_parse_setting, itertools.chain(*by_prefix.values())))
    return FeatureGates(settings, version=version)


def _parse_setting(setting: str) -> tuple[str, bool]:
    name, equals, text = (part.strip() for part in setting.partition("="))
    if not equals:
        raise ConfigError(f"missing bool value for {name}")
    try:
        return name, parse_bool(text)
    except ValueError as exc:
        raise ConfigError(f"invalid value of {name}={text}, err: {exc}") from exc


def _setting_errors(
    settings: Mapping[str, bool], features: Mapping[str, Feature], version: EffectiveVersion
) -> Iterator[str]:
    for name, value in settings.items():
        feature = features.get(name)
        if feature is None:
            yield f"unrecognized feature gate: {name}"
            return
        if feature.locked and value != feature.default:
            yield (
                f"cannot set feature gate {name} to {_word(value)}, "
                f"feature is locked to {_word(feature.default)}"
            )
        elif feature.stage is Stage.PRE_ALPHA:
            yield (
                f"cannot set feature gate {name} to {_word(value)}, feature is PreAlpha at "
                f"emulated version {version.emulation}, "
                f"min compatibility version {version.min_compatibility}"
            )
        elif feature.stage in {Stage.GA, Stage.DEPRECATED}:
            kind = "GA" if feature.stage is Stage.GA else "deprecated"
            _log.warning(
                f"Setting {kind} feature gate {name}={_word(value)}. "
                "It will be removed in a future release."
            )


def _resolve(settings: Mapping[str, bool], features: Mapping[str, Feature]) -> dict[str, bool]:
    enabled = {feature.name: feature.default for feature in features.values()}
    for name, stage in _ALL_OF_STAGE.items():
        if name in settings:
            of_stage = {feature.name for feature in features.values() if feature.stage is stage}
            enabled |= dict.fromkeys(of_stage, settings[name])
    # A feature of all stages is itself a beta or alpha gate; only its own setting counts.
    enabled |= dict.fromkeys(_ALL_OF_STAGE, False)
    return {**enabled, **settings}


def _dependency_errors(
    enabled: Mapping[str, bool], settings: Mapping[str, bool], version: EffectiveVersion
) -> Iterator[str]:
    is_emulating = version.emulation < BINARY_VERSION
    for feature in FEATURES.values():
        # The table has no earlier defaults for gates of other components.
        if is_emulating and feature.name not in HISTORY and feature.name not in settings:
            continue
        off = [name for name in feature.depends_on if not enabled[name]]
        if enabled[feature.name] and off:
            yield (
                f"{feature.name} is enabled, but depends on features that are disabled: "
                f"{format_slice(off)}"
            )


def _raise_all(messages: list[str]) -> None:
    if len(messages) == 1:
        raise ConfigError(messages[0])
    if messages:
        raise ConfigError(f"[{', '.join(messages)}]")


def _word(value: bool) -> str:
    return "true" if value else "false"


DEFAULT_FEATURE_GATES: Final = FeatureGates()
