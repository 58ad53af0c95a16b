"""Behavior rules: a file that defines the behavior of pods.

    rules:
    - match: {namespace: shop, labels: {app: web}}
      behavior: {startDelay: {uniform: [1s, 5s]}, readyDelay: 2s}
    - match: {selector: "tier in (batch)"}
      probability: 0.1
      behavior: {failAfter: {exponential: 5m}, exitCode: 3}

    - match: {labels: {app: web}}
      scripts:
        log: "listening on :80"
        exec: [{command: cat /etc/version, stdout: "1.2"}]
        cpu-usage: 250m

The first rule with a `behavior` that matches a pod, with its probability, applies. The pod's own
annotations take precedence. A behavior has the keys of the annotations in `pod_behavior.py`, in
camel case. A time may be random: `{uniform: [LEAST, MOST]}`, `{normal: [MEAN, DEVIATION]}`,
`{exponential: MEAN}`, or `{oneOf: [A, B, C]}`. The random values of a pod depend only on the seed
and on the pod's namespace and name.

The `scripts` of a rule are annotations that pods get in addition to their own, without the prefix
(`container_scripts.py`, `container_usage.py`). The first rule that matches a pod and has a key
gives its value.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kubesched.api import Pod
from kubesched.api.labels import Selector
from kubesched.cluster.nodes.pod_behavior import (
    NEVER,
    PREFIX,
    Behavior,
    behavior_of,
    duration_ns,
)
from kubesched.errors import KubeschedError
from kubesched.foundation.util.bounded_file import read_bounded_text
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.yaml_reader import load_yaml

__all__ = ["BehaviorRules", "load_behavior_rules", "parse_behavior_rules"]

Json = dict[str, Any]

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SCRIPTS = ("log", "log-interval", "exec", "port", "cpu-usage", "memory-usage")
_TIMES = ("startDelay", "runDuration", "failAfter", "readyDelay", "stopDelay")
_DISTRIBUTIONS = {"uniform": 2, "normal": 2, "exponential": 1}


class _Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace: str = ""
    labels: dict[str, str] = {}
    selector: str = ""


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    behavior: Json | None = None
    scripts: Json = {}
    match: _Match = _Match()
    probability: float = 1.0


class _Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rules: list[_Rule]


class BehaviorRules:
    """The rules of a file: a function from a pod to its behavior, and its scripts."""

    def __init__(self, rules: Sequence[_CompiledRule], seed: int) -> None:
        self._behaviors = [each for each in rules if each.has_behavior]
        self._scripted = [each for each in rules if each.scripts]
        self._seed = seed

    def __call__(self, pod: Pod) -> Behavior:
        return behavior_of(pod, self._keys if self._behaviors else None)

    def _keys(self, pod: Pod) -> Mapping[str, str]:
        rng = derive(self._seed, "behavior", pod.metadata.namespace, pod.metadata.name)
        for rule in self._behaviors:
            if rule.applies(pod, rng):
                return rule.draw(rng)
        return {}

    @property
    def scripts(self) -> Callable[[Pod], Mapping[str, str]] | None:
        """A function from a pod to further annotations; None if no rule has any."""
        return self._scripts if self._scripted else None

    def _scripts(self, pod: Pod) -> Mapping[str, str]:
        rng = derive(self._seed, "scripts", pod.metadata.namespace, pod.metadata.name)
        found: dict[str, str] = {}
        for rule in self._scripted:
            if rule.applies(pod, rng):
                found = {**rule.scripts, **found}
        return found


def load_behavior_rules(path: Path, seed: int) -> BehaviorRules:
    """Read a file of rules.

    Raises:
        KubeschedError: the file cannot be read, or a rule is invalid.
    """
    try:
        text = read_bounded_text(path)
    except OSError as exc:
        raise KubeschedError(f"{path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise KubeschedError(f"{path}: not UTF-8 text: {exc.reason}") from exc
    return parse_behavior_rules(text, seed, str(path))


def parse_behavior_rules(text: str, seed: int, name: str = "rules") -> BehaviorRules:
    """Parse rules.

    Raises:
        KubeschedError: a rule is invalid. The message names the rule.
    """
    try:
        read = msgspec.convert(load_yaml(text) or {}, _Rules)
    except (yaml.YAMLError, ValueError) as exc:  # no value of its type, or no value at all
        raise KubeschedError(f"{name}: {exc}") from exc
    rules = [
        _CompiledRule(rule, f"{name}: rules[{number}]") for number, rule in enumerate(read.rules)
    ]
    return BehaviorRules(rules, seed)


class _CompiledRule:
    """A validated rule."""

    def __init__(self, rule: _Rule, where: str) -> None:
        self._namespace, self._probability = rule.match.namespace, rule.probability
        self._labels = rule.match.labels
        try:
            self._selector = Selector.parse(rule.match.selector)
        except KubeschedError as exc:
            raise KubeschedError(f"{where}.match.selector: {exc}") from exc
        if not 0 <= rule.probability <= 1:
            raise KubeschedError(f"{where}.probability: {rule.probability} is not between 0 and 1")
        self._behavior = rule.behavior or {}
        self.has_behavior = rule.behavior is not None
        if not self.has_behavior and not rule.scripts:
            raise KubeschedError(f"{where}: there is neither `behavior` nor `scripts`")
        for key, value in self._behavior.items():
            _check(key, value, f"{where}.behavior.{key}")
        self.scripts = {
            f"{PREFIX}{_script_key(key, where)}": _script_text(value)
            for key, value in rule.scripts.items()
        }

    def applies(self, pod: Pod, rng: random.Random) -> bool:
        if self._namespace and self._namespace != pod.metadata.namespace:
            return False
        labels = pod.metadata.labels
        if not self._labels.items() <= labels.items() or not self._selector.matches(labels):
            return False
        return rng.random() < self._probability

    def draw(self, rng: random.Random) -> Mapping[str, str]:
        return {
            _WORDS.sub("-", key).lower(): _draw_value(value, rng)
            for key, value in self._behavior.items()
        }


def _script_key(key: str, where: str) -> str:
    """Return the key of an annotation. Raises KubeschedError if the key is unknown."""
    dashed = _WORDS.sub("-", key).lower() if "." not in key else key
    if dashed.partition(".")[0] not in _SCRIPTS:
        known = ", ".join(_SCRIPTS)
        raise KubeschedError(f"{where}.scripts.{key}: no such script; there are {known}")
    return dashed


def _script_text(value: Any) -> str:
    """Return the text of an annotation; lists and objects become YAML."""
    return value if isinstance(value, str) else yaml.safe_dump(value)


def _check(key: str, value: Any, where: str) -> None:
    if key == "exitCode":
        if not isinstance(value, int) or not 0 <= value <= 255:
            raise KubeschedError(f"{where}: {value!r} is not an exit code")
    elif key == "imagePull":
        if value != "fail":
            raise KubeschedError(f"{where}: {value!r} is not 'fail'")
    elif key not in _TIMES:
        known = ", ".join((*_TIMES, "exitCode", "imagePull"))
        raise KubeschedError(f"{where}: no such behavior; there are {known}")
    elif not (_is_time(value) or (key == "readyDelay" and value == NEVER)):
        raise KubeschedError(f"{where}: {value!r} is neither a time nor a random time")


def _is_time(value: Any) -> bool:
    """Whether a value is a duration or a distribution of durations."""
    if not isinstance(value, dict) or len(value) != 1:
        return _time_ns(value) is not None
    ((form, parameters),) = value.items()
    times = parameters if isinstance(parameters, list) else [parameters]
    has_right_count = form == "oneOf" or _DISTRIBUTIONS.get(form) == len(times)
    return bool(has_right_count and times and all(_time_ns(each) is not None for each in times))


def _time_ns(value: Any) -> int | None:
    return duration_ns(str(value))


def _draw_value(value: Any, rng: random.Random) -> str:
    if not isinstance(value, dict):
        return str(value)
    ((form, parameters),) = value.items()
    if form == "oneOf":
        return str(rng.choice(parameters))
    listed = parameters if isinstance(parameters, list) else [parameters]
    times = [(_time_ns(each) or 0) / SECOND for each in listed]
    if form == "uniform":
        seconds = rng.uniform(*times)
    elif form == "normal":
        seconds = rng.gauss(*times)
    else:
        seconds = rng.expovariate(1 / times[0]) if times[0] else 0.0
    return f"{max(0.0, seconds):.6f}"
