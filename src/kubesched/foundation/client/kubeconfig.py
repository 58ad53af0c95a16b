"""Kubeconfig files, read and merged as kubectl does.

Of several files, the first one with an entry for a cluster, user or context determines the entry,
and the first one that sets the current context determines the context. Paths in a file are relative
to its folder. Errors are ConfigErrors with the file and the location in it. This module reads no
other files, and opens no connections.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import yaml

from kubesched.errors import ConfigError
from kubesched.foundation.util.bounded_file import MOST_SETTINGS_BYTES, read_bounded
from kubesched.foundation.util.yaml_reader import load_yaml

__all__ = [
    "ExecConfig",
    "Kubeconfig",
    "KubeconfigCluster",
    "KubeconfigContext",
    "KubeconfigUser",
    "Selected",
    "kubectl_files",
    "load_kubeconfig",
]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """An entry of a file; `source` is the file, `place` also has the location in it."""

    source: str = ""
    place: str = ""

    def path(self, relative: str) -> Path:
        """Resolve a path relative to the folder of the file that contains it."""
        return Path(self.source).parent / relative


class KubeconfigCluster(_Part, frozen=True):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""


class ExecVariable(msgspec.Struct, frozen=True):
    name: str = ""
    value: str = ""


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[ExecVariable, ...] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: Literal["", "Never", "IfAvailable", "Always"] = ""


class KubeconfigUser(_Part, frozen=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    impersonate: str = msgspec.field(name="as", default="")
    impersonate_uid: str = msgspec.field(name="as-uid", default="")
    impersonate_groups: tuple[str, ...] = msgspec.field(name="as-groups", default=())
    username: str = ""
    password: str = ""
    auth_provider: dict[str, Any] | None = None
    exec: ExecConfig | None = None


class KubeconfigContext(_Part, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str = ""
    cluster: KubeconfigCluster | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str = ""
    user: KubeconfigUser | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str = ""
    context: KubeconfigContext | None = None


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    kind: str = ""
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None
    current_context: str = ""


class Selected(msgspec.Struct, frozen=True):
    """The cluster and the user of a context."""

    context: str
    cluster: KubeconfigCluster
    user: KubeconfigUser
    namespace: str = ""


P = TypeVar("P", bound=_Part)


class Kubeconfig:
    """All files, merged."""

    def __init__(self, files: Iterable[str] = ()) -> None:
        self.files = tuple(files)
        self.clusters: dict[str, KubeconfigCluster] = {}
        self.users: dict[str, KubeconfigUser] = {}
        self.contexts: dict[str, KubeconfigContext] = {}
        self.current_context = ""

    def select(self, name: str = "") -> Selected:
        """Return the cluster and the user of a context, by default of the current one.

        Raises:
            ConfigError: the context, its cluster or its user does not exist.
        """
        where = ", ".join(self.files) or "kubeconfig"
        name = name or self.current_context
        if not name:
            error = ConfigError(f"{where}: current-context: none is set")
            missing = [each for each in self.files if not Path(each).exists()]
            if missing and len(missing) == len(self.files):
                error = ConfigError(f"{where}: there is no such kubeconfig file")
            elif self.contexts:
                error.add_note(
                    f"choose one with `kubectl config use-context`: {', '.join(self.contexts)}"
                )
            raise error
        context = _named(self.contexts, name, where, "current-context", "context")
        cluster = _named(self.clusters, context.cluster, context.place, "cluster", "cluster")
        user = KubeconfigUser()
        if context.user:
            user = _named(self.users, context.user, context.place, "user", "user")
        return Selected(name, cluster, user, context.namespace)

    def merge(self, path: str, file: _File) -> None:
        for entry in file.clusters or ():
            _add(self.clusters, entry.name, entry.cluster or KubeconfigCluster(), "cluster", path)
        for user in file.users or ():
            _add(self.users, user.name, user.user or KubeconfigUser(), "user", path)
        for context in file.contexts or ():
            _add(
                self.contexts, context.name, context.context or KubeconfigContext(), "context", path
            )
        self.current_context = self.current_context or file.current_context


def kubectl_files(environ: Mapping[str, str]) -> list[Path]:
    """Return the files that kubectl reads by default; they may not exist."""
    listed = environ.get("KUBECONFIG", "")
    if listed:
        return [Path(part) for part in listed.split(os.pathsep) if part]
    return [Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"]


def load_kubeconfig(paths: Iterable[Path], *, must_exist: bool) -> Kubeconfig:
    """Read and merge files; missing ones are skipped unless they are required.

    Raises:
        ConfigError: a file cannot be read, or is not a kubeconfig.
    """
    paths = list(paths)
    merged = Kubeconfig(str(path) for path in paths)
    for path in paths:
        try:
            text = read_bounded(path, MOST_SETTINGS_BYTES)
        except FileNotFoundError as exc:
            if not must_exist:
                continue
            error = ConfigError(f"{path}: there is no such kubeconfig file")
            error.add_note(
                "check --kubeconfig, or clientConnection.kubeconfig in the --config file"
            )
            raise error from exc
        except OSError as exc:
            raise ConfigError(f"{path}: {(exc.strerror or str(exc)).lower()}") from exc
        merged.merge(str(path), _parse(path, text))
    return merged


def _parse(path: Path, text: bytes) -> _File:
    try:
        document = load_yaml(text)
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ConfigError(f"{path}:{line}: not YAML: {exc.problem}") from exc
    except (yaml.YAMLError, ValueError) as exc:  # not YAML text, or an invalid value
        raise ConfigError(f"{path}: not YAML: {' '.join(str(exc).split())}") from exc
    if document is None:
        return _File()
    try:
        file = msgspec.convert(_without_nulls(document), _File)
    except msgspec.ValidationError as exc:
        what, _, place = str(exc).partition(" - at `$.")
        raise ConfigError(f"{path}: {place.rstrip('`') or 'document'}: {_lower(what)}") from exc
    if file.kind and file.kind != "Config":
        raise ConfigError(f"{path}: kind: {file.kind!r} is not a kubeconfig, expected 'Config'")
    return file


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def _lower(text: str) -> str:
    return (text[:1].lower() + text[1:]).replace("`", "")


def _add(known: dict[str, P], name: str, part: P, what: str, path: str) -> None:
    if name not in known:
        place = f"{path}: {what}s[{name}].{what}"
        known[name] = msgspec.structs.replace(part, source=path, place=place)


def _named(known: Mapping[str, P], name: str, where: str, field: str, what: str) -> P:
    found = known.get(name)
    if found is None:
        error = ConfigError(f"{where}: {field}: there is no {what} named {name!r}")
        if hint := _hint(name, known):
            error.add_note(hint)
        raise error
    return found


def _hint(name: str, known: Collection[str]) -> str:
    if near := difflib.get_close_matches(name, known, n=1):
        return f"did you mean {near[0]!r}?"
    return f"there are: {', '.join(known)}" if known else ""
