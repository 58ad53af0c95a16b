"""Loads a configuration: parsing, decoding, defaults and validation.

All of docs/reference/01 §2 to §10 that concerns the file. Every error is a `ConfigError` with the
reference's text. For a setting of an earlier release a note names its successor.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubesched.errors import ConfigError
from kubesched.foundation.util.bounded_file import MOST_SETTINGS_BYTES, read_bounded
from kubesched.foundation.util.go_format import quote
from kubesched.scheduler.config import removed
from kubesched.scheduler.config.args import IN_TREE_ARGS
from kubesched.scheduler.config.config_text import (
    ConfigDocument,
    json_kind,
    members,
    plain,
    read_document,
)
from kubesched.scheduler.config.configuration_validation import validate_configuration
from kubesched.scheduler.config.decode import (
    TYPE_META,
    Decoded,
    WrongTypeError,
    decode_members,
    rejected_members,
)
from kubesched.scheduler.config.defaults import (
    build_args,
    default_configuration,
    default_plugins,
    with_client_connection_defaults,
    with_default_plugin_config,
    with_leader_election_defaults,
)
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.field_errors import raise_all, required
from kubesched.scheduler.config.flag_overrides import (
    apply_deprecated_flags,
    apply_leader_election_flags,
)
from kubesched.scheduler.config.plugin_lists import merge_plugins
from kubesched.scheduler.config.plugin_names import DEFAULT_SCHEDULER_NAME
from kubesched.scheduler.config.types import (
    API_VERSION,
    GROUP,
    KIND,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
)

__all__ = [
    "StrictDecodingError",
    "configuration_from_builtins",
    "load_as_far_as_possible",
    "load_configuration",
    "load_configuration_file",
]

# The reference names the place in its source where it lists its types.
_SCHEME: Final = "pkg/scheduler/apis/config/scheme/scheme.go:29"
_TYPE_META_TYPE: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


_IN_TREE_TYPES: Final = frozenset(IN_TREE_ARGS.values())


def load_configuration_file(
    path: str | os.PathLike[str],
    *,
    flags: Mapping[str, str] = MappingProxyType({}),
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    known_args: Mapping[str, type] | None = None,
) -> KubeSchedulerConfiguration:
    """Load the file at `path`, as `load_configuration` loads its content."""
    try:
        text = read_bounded(path, MOST_SETTINGS_BYTES)
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise ConfigError(f"open {os.fspath(path)}: {reason}") from exc
    return load_configuration(text, flags=flags, gates=gates, known_args=known_args)


def load_configuration(
    text: str | bytes | None,
    *,
    flags: Mapping[str, str] = MappingProxyType({}),
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    known_args: Mapping[str, type] | None = None,
) -> KubeSchedulerConfiguration:
    """Read a configuration in YAML or JSON, fill in defaults and check it.

    Arguments of in-tree plugins have types. `known_args` adds those of other plugins, each a
    msgspec struct under the plugin's name, and they are decoded as strictly; arguments of
    all other plugins are not decoded.

    `flags` are those of the command line, by name without dashes. With a file only those of leader
    election have an effect; they override the file before it is validated. Without a file (None)
    the result is not validated again: wrong flags fail when the scheduler runs.

    Raises:
        ConfigError: all errors that the reference reports together.
    """
    if text is None:
        configuration = apply_deprecated_flags(default_configuration(gates), flags)
        return apply_leader_election_flags(configuration, flags)
    reader = _Reader(gates, known_args)
    return _finish(reader.read(read_document(text)), gates, flags)


def configuration_from_builtins(
    mapping: Mapping[str, Any],
    *,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    known_args: Mapping[str, type] | None = None,
) -> KubeSchedulerConfiguration:
    """Do as `load_configuration` does, for a configuration that is already parsed."""
    reader = _Reader(gates, known_args)
    root = plain(dict(mapping))
    text = json.dumps(root, separators=(",", ":"), ensure_ascii=False, default=str)
    document = ConfigDocument(root, text)
    return _finish(reader.read(document), gates, {})


def _finish(
    configuration: KubeSchedulerConfiguration,
    gates: FeatureGates,
    flags: Mapping[str, str],
) -> KubeSchedulerConfiguration:
    configuration = apply_leader_election_flags(configuration, flags)
    validate_configuration(configuration, gates=gates)
    return configuration


class StrictDecodingError(ConfigError):
    """The configuration has unknown or repeated fields; `problems` has one entry for each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"strict decoding error: {', '.join(self.problems)}")


def load_as_far_as_possible(
    text: str | bytes,
    *,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    known_args: Mapping[str, type] | None = None,
) -> tuple[KubeSchedulerConfiguration | None, list[ConfigError]]:
    """Read a configuration and continue after errors. Return the valid rest and all errors.

    The rest has its defaults and is not validated. It is None if nothing could be decoded.
    """
    errors: list[ConfigError] = []
    try:
        return _Reader(gates, known_args, errors).read(read_document(text)), errors
    except ConfigError as exc:
        return None, [*errors, exc]
    except msgspec.ValidationError:
        # The errors were reported above: without the wrong values a part may be None.
        if not errors:
            raise
        return None, errors


class _Reader:
    """Decodes and completes one document; the gates and known arguments are its context.

    With a list for errors it continues after errors that leave a valid rest.
    """

    def __init__(
        self,
        gates: FeatureGates,
        known_args: Mapping[str, type] | None,
        errors: list[ConfigError] | None = None,
    ) -> None:
        self._errors = errors
        self._gates = gates
        self._known_args = {**IN_TREE_ARGS, **(known_args or {})}
        self._problems: list[str] = []  # of strictness
        self._notes: list[str] = []

    def read(self, document: ConfigDocument) -> KubeSchedulerConfiguration:
        api_version, kind = _type_meta(document.root, document.text)
        if kind != KIND:
            self._reject_kind(document, api_version, kind)
        if api_version != API_VERSION:
            raise _not_registered(api_version, kind)
        configuration = self._decode(document, KubeSchedulerConfiguration)
        profiles = configuration.pop("profiles", [])
        configs = [list(self._plugin_configs(i, profile)) for i, profile in enumerate(profiles)]
        self._raise_strict()
        return self._complete(configuration, profiles, configs)

    def _decode(self, document: ConfigDocument, struct: type) -> dict[str, Any]:
        try:
            decoded = decode_members(document.root, struct)
        except WrongTypeError as exc:
            self._report(exc)
            decoded = exc.decoded
        self._problems.extend((*document.problems, *decoded.problems))
        self._notes.extend(decoded.notes)
        return decoded.members

    def _raise_strict(self) -> None:
        if not self._problems:
            return
        error = StrictDecodingError(self._problems)
        for note in self._notes:
            error.add_note(note)
        self._report(error)

    def _report(self, error: ConfigError) -> None:
        if self._errors is None:
            raise error
        self._errors.append(error)

    def _reject_kind(self, document: ConfigDocument, api_version: str, kind: str) -> None:
        """Raise the error for a document of another kind; arguments are decoded first."""
        args_type = self._known_args.get(kind.removesuffix("Args"))
        if api_version != API_VERSION or args_type is None or not kind.endswith("Args"):
            raise _not_registered(api_version, kind)
        self._decode(document, args_type)
        self._raise_strict()
        raise ConfigError(
            f"couldn't decode as KubeSchedulerConfiguration, got {api_version}, Kind={kind}: "
        )

    def _plugin_configs(
        self, profile_index: int, profile: dict[str, Any]
    ) -> Iterator[PluginConfig]:
        for index, entry in enumerate(profile.pop("pluginConfig", [])):
            name = entry.get("name", "")
            args_type = self._known_args.get(name)
            if args_type is None:
                yield PluginConfig(name, plain(entry.get("args")))
                continue
            where = f"decoding .profiles[{profile_index}].pluginConfig[{index}]"
            yield self._typed_config(where, name, entry.get("args"), args_type)

    def _typed_config(self, where: str, name: str, value: Any, args_type: type) -> PluginConfig:
        """Return arguments of a type; invalid ones are reported and replaced by defaults."""
        wrong: list[tuple[str, str]] = []
        try:
            decoded = self._decode_args(name, value)
        except WrongTypeError as exc:
            self._report(_prefixed(exc, where))
            wrong, decoded = list(exc.problems), exc.decoded
        except ConfigError as exc:
            self._report(_prefixed(exc, where))
            return self._default_plugin_config(name, args_type)
        if not decoded.problems or self._errors is not None:
            build = functools.partial(build_args, args_type, gates=self._gates)
            unmet = rejected_members(build, decoded.members, reported=[path for path, _ in wrong])
            if unmet:
                place = f"{where}: decoding args for plugin {name}"
                found = [(path, f"{place}: {text}") for path, text in unmet]
                self._report(WrongTypeError(found, decoded))
                wrong += unmet
        self._note_strictness(where, name, decoded)
        if wrong or decoded.problems:
            return self._default_plugin_config(name, args_type)
        return PluginConfig(name, build_args(args_type, decoded.members, self._gates))

    def _note_strictness(self, where: str, name: str, decoded: Decoded) -> None:
        if not decoded.problems:
            return
        self._notes.extend(decoded.notes)
        # One error with the reference's text, but separate entries for `find_problems`.
        problems = [", ".join(decoded.problems)] if self._errors is None else decoded.problems
        self._problems.extend(
            f"{where}: strict decoding error: decoding args for plugin {name}: "
            f"strict decoding error: {each}"
            for each in problems
        )

    def _default_plugin_config(self, name: str, args_type: type) -> PluginConfig:
        """Return default arguments in place of invalid ones."""
        if any(field.required for field in msgspec.structs.fields(args_type)):
            return PluginConfig(name)
        return PluginConfig(name, build_args(args_type, {}, self._gates))

    def _decode_args(self, name: str, value: Any) -> Decoded:
        where = f"decoding args for plugin {name}"
        value = {} if value is None else value
        try:
            api_version, kind = _type_meta(value, "", default_kind=f"{name}Args")
            wanted, decoded_type = f"{name}Args", self._known_args.get(kind.removesuffix("Args"))
            if api_version != API_VERSION or decoded_type is None or not kind.endswith("Args"):
                raise _not_registered(api_version, kind)
            is_own = decoded_type not in _IN_TREE_TYPES
            decoded = decode_members(value, decoded_type, is_own=is_own)
        except ConfigError as exc:
            raise _prefixed(exc, where) from exc
        if kind != wanted:
            raise ConfigError(
                f"args for plugin {name} were not of type {wanted}.{GROUP}, got {kind}.{GROUP}"
            )
        return decoded

    def _complete(
        self,
        configuration_members: dict[str, Any],
        profiles: list[dict[str, Any]],
        configs: list[list[PluginConfig]],
    ) -> KubeSchedulerConfiguration:
        if not configuration_members.get("enableProfiling", True):
            configuration_members.setdefault("enableContentionProfiling", False)
        if not profiles:
            profiles, configs = [{}], [[]]
        if len(profiles) == 1:
            profiles[0].setdefault("schedulerName", DEFAULT_SCHEDULER_NAME)
        given = msgspec.convert(configuration_members, KubeSchedulerConfiguration)
        return replace(
            given,
            leader_election=with_leader_election_defaults(given.leader_election),
            client_connection=with_client_connection_defaults(given.client_connection),
            profiles=tuple(map(self._profile, itertools.count(), profiles, configs)),
        )

    def _profile(
        self, index: int, profile_members: dict[str, Any], configs: list[PluginConfig]
    ) -> KubeSchedulerProfile:
        given = msgspec.convert(profile_members, KubeSchedulerProfile)
        plugins = merge_plugins(default_plugins(self._gates), given.plugins)
        plugin_config = with_default_plugin_config(
            configs, plugins, gates=self._gates, known_args=self._known_args
        )
        with_args = {entry.name for entry in plugin_config}
        raise_all(
            required(f"profiles[{index}].pluginConfig", f"plugin {name} has arguments to be set")
            for name in sorted(plugins.enabled_names() & self._known_args.keys() - with_args)
        )
        return replace(given, plugins=plugins, plugin_config=plugin_config)


def _type_meta(value: Any, text: str, *, default_kind: str = "") -> tuple[str, str]:
    """Find version and kind; arguments may leave them out and have a default kind."""
    found = dict.fromkeys(TYPE_META, "")
    if value is not None and not isinstance(value, dict):
        raise ConfigError(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{json_kind(value)} into Go value of type {_TYPE_META_TYPE}"
        )
    for name, item in members(value or {}):
        for key in TYPE_META:
            # This first look, unlike the decoding of fields, ignores case.
            if name.lower() != key.lower() or item is None:
                continue
            if not isinstance(item, str):
                raise ConfigError(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal "
                    f"{json_kind(item)} into Go struct field .{key} of type string"
                )
            found[key] = item
    api_version, kind = found["apiVersion"], found["kind"]
    if api_version.count("/") > 1:
        raise ConfigError(f"unexpected GroupVersion string: {api_version}")
    if default_kind:
        return api_version.strip("/") or API_VERSION, kind or default_kind
    if not kind:
        raise ConfigError(f"Object 'Kind' is missing in '{text}'")
    if not api_version.rpartition("/")[2]:
        raise ConfigError(f"Object 'apiVersion' is missing in '{text}'")
    return api_version, kind


def _not_registered(api_version: str, kind: str) -> ConfigError:
    error = ConfigError(
        f"no kind {quote(kind)} is registered for version {quote(api_version)} "
        f"in scheme {quote(_SCHEME)}"
    )
    if note := removed.version_note(api_version, kind):
        error.add_note(note)
    return error


def _prefixed(error: ConfigError, where: str) -> ConfigError:
    text = f"{where}: {error}"
    prefixed = ConfigError(text)
    if isinstance(error, WrongTypeError):
        problems = [(path, f"{where}: {each}") for path, each in error.problems]
        prefixed = WrongTypeError(problems, error.decoded)
    prefixed.__cause__ = error
    for note in getattr(error, "__notes__", ()):
        prefixed.add_note(note)
    return prefixed
