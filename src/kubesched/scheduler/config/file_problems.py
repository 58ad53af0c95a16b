"""Every problem of a configuration file, with line numbers.

The reference reports the problems of one step and stops. `find_problems` runs all steps as far as
possible, so that users can correct a file at once. The texts are the reference's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubesched.errors import ConfigError
from kubesched.foundation.util.yaml_documents import YamlDocument, YamlProblem, read_documents
from kubesched.scheduler.config.configuration_completion import (
    complete_configuration,
    expand_profiles,
)
from kubesched.scheduler.config.configuration_validation import configuration_errors
from kubesched.scheduler.config.decode import WrongTypeError
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.field_errors import InvalidConfigurationError
from kubesched.scheduler.config.flag_overrides import apply_leader_election_flags
from kubesched.scheduler.config.load import StrictDecodingError, load_as_far_as_possible
from kubesched.scheduler.config.plugin_lists import Implemented
from kubesched.scheduler.config.plugin_names import IN_TREE_EXTENSION_POINTS
from kubesched.scheduler.config.types import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    Plugins,
)

__all__ = ["ConfigProblem", "find_problems", "with_places"]

_ARGS: Final = re.compile(r"decoding \.(profiles\[\d+\]\.pluginConfig\[\d+\])")
_FIELD: Final = re.compile(r'(?:unknown|duplicate) field "([^"]*)"$')
_LINE: Final = re.compile(r"\bline (\d+)\b")
_QUOTED: Final = re.compile(r'"([^"]+)"')


class ConfigProblem(msgspec.Struct, frozen=True):
    """One problem: its line (0: no particular one), its text, and notes with remedies."""

    line: int
    text: str
    notes: tuple[str, ...] = ()

    def at(self, file: str) -> str:
        """Return the problem as one line that begins with file and line."""
        place = f"{file}:{self.line}" if self.line else file
        return f"{place}: {self.text}"


def with_places(error: ConfigError, file: str, problems: Iterable[ConfigProblem]) -> ConfigError:
    """Add a note to the error for every problem of the file that has a line."""
    for problem in problems:
        if problem.line:
            error.add_note(problem.at(file))
    return error


def find_problems(
    text: str | bytes,
    *,
    flags: Mapping[str, str] = MappingProxyType({}),
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    known_args: Mapping[str, type] | None = None,
    implemented: Implemented = IN_TREE_EXTENSION_POINTS,
) -> tuple[ConfigProblem, ...]:
    """Return every problem of a configuration in the order of its lines."""
    configuration, errors = load_as_far_as_possible(text, gates=gates, known_args=known_args)
    lines = _Lines(text)
    found = [each for error in errors for each in _split(error, lines)]
    if configuration is not None:
        configuration = apply_leader_election_flags(configuration, flags)
        unread = {path for error in errors for path in _unread(error)}
        found += _broken_rules(configuration, gates, implemented, lines, unread)
    distinct: dict[tuple[int, str], ConfigProblem] = {}
    for problem in found:
        distinct.setdefault((problem.line, problem.text), problem)
    return tuple(sorted(distinct.values(), key=lambda each: each.line))


def _unread(error: ConfigError) -> Iterator[str]:
    """Yield the paths of values that could not be decoded; defaults take their place."""
    if isinstance(error, WrongTypeError):
        yield from (f"{_args_in(text)}{path}" for path, text in error.problems)


def _broken_rules(
    configuration: KubeSchedulerConfiguration,
    gates: FeatureGates,
    implemented: Implemented,
    lines: _Lines,
    unread: set[str],
) -> Iterator[ConfigProblem]:
    """Check values, then the profiles whose values are valid."""
    wrong = tuple(
        error
        for error in configuration_errors(configuration, gates=gates)
        if error.path not in unread
    )
    if wrong:
        yield from _split(InvalidConfigurationError(wrong), lines)
    broken = {error.path.partition(".")[0] for error in wrong}
    is_sound = not wrong
    for index, profile in enumerate(configuration.profiles):
        if f"profiles[{index}]" in broken:
            continue
        for error in _profile_errors(profile, implemented, gates):
            is_sound = False
            yield ConfigProblem(lines.of_profile(index, str(error)), str(error), _notes(error))
    if is_sound:
        try:
            complete_configuration(configuration, implemented, gates=gates)
        except ConfigError as exc:
            yield ConfigProblem(lines.of("profiles"), str(exc), _notes(exc))


def _profile_errors(
    profile: KubeSchedulerProfile, implemented: Implemented, gates: FeatureGates
) -> Iterator[ConfigError]:
    """Yield the errors of a profile: after each error the profile is tried without its cause."""
    while True:
        try:
            expand_profiles([profile], implemented, gates=gates)
            return
        except ConfigError as exc:
            yield exc
            rest = _without(profile, set(_QUOTED.findall(str(exc))), implemented)
        if rest == profile:
            return
        profile = rest


def _without(
    profile: KubeSchedulerProfile, names: set[str], implemented: Implemented
) -> KubeSchedulerProfile:
    """Return the profile without the arguments of these plugins.

    If it has none, without the plugins.

    Invalid arguments are an error at one point only, so the plugins stay enabled.
    """
    config = tuple(each for each in profile.plugin_config if each.name not in names)
    if config != profile.plugin_config:
        return replace(profile, plugin_config=config)
    changes = {
        field.name: replace(given, enabled=kept)
        for field in msgspec.structs.fields(Plugins)
        if (given := getattr(profile.plugins, field.name))
        if (wrong := names - implemented.keys() if field.name == "multi_point" else names)
        if (kept := tuple(ref for ref in given.enabled if ref.name not in wrong)) != given.enabled
    }
    return replace(profile, plugins=replace(profile.plugins, **changes))


def _split(error: ConfigError, lines: _Lines) -> Iterator[ConfigProblem]:
    """Split an error into the problems that it reports."""
    notes = _notes(error)
    match error:
        case InvalidConfigurationError(errors=errors):
            places = [(each.path, str(each)) for each in errors]
        case StrictDecodingError(problems=problems):
            places = [(_path_in(each), f"strict decoding error: {each}") for each in problems]
        case WrongTypeError(problems=wrong):
            places = [(f"{_args_in(each)}{path}", each) for path, each in wrong]
        case _:
            places = [(_path_in(str(error)), str(error))]
    for path, text in places:
        line = _LINE.search(text)
        place = int(line[1]) if line is not None else lines.of(path)
        # Notes about fields begin with their names.
        field = re.split(r"[.\[]", path)[-1]
        own = notes if len(places) == 1 else tuple(n for n in notes if _first_word(n) == field)
        yield ConfigProblem(place, _one_line(text), own)


def _first_word(note: str) -> str:
    return re.split(r"[: ]", note, maxsplit=1)[0]


def _args_in(text: str) -> str:
    """The path of the arguments that a text is about, with a dot; empty if it is about none."""
    args = _ARGS.search(text)
    return "" if args is None else f"{args[1]}.args."


def _path_in(text: str) -> str:
    field = _FIELD.search(text)
    return f"{_args_in(text)}{field[1]}" if field is not None else _args_in(text)


def _notes(error: ConfigError) -> tuple[str, ...]:
    return tuple(getattr(error, "__notes__", ()))


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))


class _Lines:
    """The lines of the fields of a text; none if it is not YAML."""

    def __init__(self, text: str | bytes) -> None:
        decoded = text.decode(errors="replace") if isinstance(text, bytes) else text
        first = next(iter(read_documents(decoded)), None)
        self._document = None if isinstance(first, YamlProblem) else first

    def of(self, path: str) -> int:
        """Return the line of a field, or of the last existing value on its path."""
        if self._document is None or not path:
            return 0
        top = path.partition(".")[0].partition("[")[0]
        is_there = isinstance(self._document.value, dict) and top in self._document.value
        return self._document.line_of(path) if is_there else 0

    def of_profile(self, index: int, text: str) -> int:
        """The line of the plugin that a text about a profile names, or of the profile."""
        place = f"profiles[{index}]"
        names = set(_QUOTED.findall(text))
        found = next(iter(_named(self._profile(index), names)), "")
        return self.of(f"{place}.{found}" if found else place)

    def _profile(self, index: int) -> Any:
        document = self._document
        value = document.value if isinstance(document, YamlDocument) else None
        profiles = value.get("profiles") if isinstance(value, dict) else None
        return profiles[index] if isinstance(profiles, list) and index < len(profiles) else {}


def _named(profile: Any, names: set[str]) -> Iterator[str]:
    """Paths of the plugins in a profile's lists that have one of these names."""
    lists = profile.get("plugins") if isinstance(profile, dict) else None
    for point, plugin_set in (lists or {}).items() if isinstance(lists, dict) else ():
        enabled = plugin_set.get("enabled") if isinstance(plugin_set, dict) else None
        for number, entry in enumerate(enabled if isinstance(enabled, list) else ()):
            if isinstance(entry, dict) and entry.get("name") in names:
                yield f"plugins.{point}.enabled[{number}]"
    configs = profile.get("pluginConfig") if isinstance(profile, dict) else None
    for number, entry in enumerate(configs if isinstance(configs, list) else ()):
        if isinstance(entry, dict) and entry.get("name") in names:
            yield f"pluginConfig[{number}]"
