"""Connection settings from a kubeconfig, or from the service account of a pod.

docs/reference/02 §9.1.
"""

from __future__ import annotations

import base64
import binascii
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubesched.errors import ConfigError
from kubesched.foundation.client.credentials import FileText, UserCredentials
from kubesched.foundation.client.exec_plugin import ExecPlugin, ExecSettings
from kubesched.foundation.client.http_transport import Connection
from kubesched.foundation.client.kubeconfig import (
    ExecConfig,
    KubeconfigCluster,
    KubeconfigUser,
    Selected,
    kubectl_files,
    load_kubeconfig,
)
from kubesched.foundation.client.tls import KeyPair, TlsOptions, client_context
from kubesched.foundation.metrics.client_metrics import ClientMetrics
from kubesched.foundation.util.clock import Clock

__all__ = ["SERVICE_ACCOUNT", "connect_in_cluster", "connect_process", "connect_selected"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


def connect_process(
    kubeconfig: str,
    master: str,
    clock: Clock,
    environ: Mapping[str, str],
    *,
    user_agent: str,
    metrics: ClientMetrics | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """Return the connection of a component.

    The flags have precedence, then the service account of the pod, then the files that $KUBECONFIG
    lists. The kubeconfig in the home directory is never used, because a scheduler must not act on
    the cluster that the user last worked with.

    Raises:
        ConfigError: none of these can be used.
    """
    if kubeconfig:
        selected = load_kubeconfig([Path(kubeconfig)], must_exist=True).select()
        return connect_selected(selected, clock, master, user_agent=user_agent, metrics=metrics)
    if master:
        return Connection(server=_server(master, "--master"), user_agent=user_agent)
    try:
        return connect_in_cluster(
            clock, environ, user_agent=user_agent, service_account=service_account
        )
    except ConfigError as exc:
        if not environ.get("KUBECONFIG"):
            exc.add_note("pass --kubeconfig FILE, or set KUBECONFIG")
            raise
    selected = load_kubeconfig(kubectl_files(environ), must_exist=False).select()
    return connect_selected(selected, clock, user_agent=user_agent, metrics=metrics)


def connect_in_cluster(
    clock: Clock,
    environ: Mapping[str, str],
    *,
    user_agent: str,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """Use the service account of the pod this process runs in."""
    host, port = (environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    if not host or not port:
        raise ConfigError(
            "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and "
            "KUBERNETES_SERVICE_PORT must be defined"
        )
    token, ca = service_account / "token", service_account / "ca.crt"
    for path in (token, ca):
        _check_readable(path, "in-cluster configuration")
    shown = f"[{host}]" if ":" in host else host
    return Connection(
        server=f"https://{shown}:{port}",
        ca_file=FileText(ca, clock),
        credentials=UserCredentials(token_file=FileText(token, clock)),
        user_agent=user_agent,
    )


def connect_selected(
    selected: Selected,
    clock: Clock,
    master: str = "",
    *,
    user_agent: str,
    metrics: ClientMetrics | None = None,
) -> Connection:
    """Use a context of a kubeconfig; `master` overrides the server's address alone.

    Raises:
        ConfigError: the entry of the cluster or the user is invalid.
    """
    cluster, user = selected.cluster, selected.user
    where = cluster.place
    if not (master or cluster.server):
        raise ConfigError(f"{where}.server: must be set")
    has_ca = bool(cluster.certificate_authority or cluster.certificate_authority_data)
    has_pair = bool(user.client_certificate or user.client_certificate_data)
    scheme = "https" if has_ca or has_pair or cluster.insecure_skip_tls_verify else "http"
    if master:
        server = _server(master, "--master", scheme)
    else:
        server = _server(cluster.server, f"{where}.server", scheme)
    _check_cluster(cluster, has_ca=has_ca)
    ca_data = _inline(cluster.certificate_authority_data, f"{where}.certificate-authority-data")
    ca_file = None
    if cluster.certificate_authority and not ca_data:
        ca_file = FileText(cluster.path(cluster.certificate_authority), clock)
        _check_readable(ca_file.path, f"{where}.certificate-authority")
    tls = TlsOptions(ca_data, cluster.tls_server_name, cluster.insecure_skip_tls_verify)
    credentials, pair = _user(user, cluster, server, clock, metrics)
    try:
        trusted = ca_file.read() if ca_file is not None else ca_data
        client_context(TlsOptions(trusted, insecure=tls.insecure), pair)
    except ConfigError as exc:
        raise ConfigError(f"{cluster.source}: context {selected.context!r}: {exc}") from exc
    return Connection(
        server=server, tls=tls, ca_file=ca_file, credentials=credentials, user_agent=user_agent
    )


def _check_cluster(cluster: KubeconfigCluster, *, has_ca: bool) -> None:
    if cluster.proxy_url:
        raise ConfigError(f"{cluster.place}.proxy-url: proxies are not supported")
    if cluster.insecure_skip_tls_verify and has_ca:
        raise ConfigError(
            f"{cluster.place}.insecure-skip-tls-verify: specifying a root certificates file with "
            "the insecure flag is not allowed"
        )


def _user(
    user: KubeconfigUser,
    cluster: KubeconfigCluster,
    server: str,
    clock: Clock,
    metrics: ClientMetrics | None,
) -> tuple[UserCredentials, KeyPair | None]:
    where = user.place
    if user.auth_provider is not None:
        error = ConfigError(f"{where}.auth-provider: no longer exists in Kubernetes")
        error.add_note("use an exec plugin")
        raise error
    if user.username and (user.token or user.token_file):
        raise ConfigError(
            f"{where}: more than one authentication method found; found [token basicAuth], only "
            "one is allowed"
        )
    certificate = _data_or_file(
        user, user.client_certificate_data, user.client_certificate, "client-certificate", clock
    )
    key = _data_or_file(user, user.client_key_data, user.client_key, "client-key", clock)
    if bool(certificate) != bool(key):
        missing, given = ("client-key", "client-certificate")[:: 1 if certificate else -1]
        raise ConfigError(f"{where}.{missing}: must be set together with {given}")
    token_file = None
    if user.token_file:
        token_file = FileText(user.path(user.token_file), clock)
        _check_readable(token_file.path, f"{where}.tokenFile")
    plugin = None
    if user.exec is not None:
        plugin = ExecPlugin(_exec_settings(user, user.exec, cluster, server), clock, metrics)
    credentials = UserCredentials(
        token=user.token,
        token_file=token_file,
        username=user.username,
        password=user.password,
        certificate=certificate,
        key=key,
        exec_plugin=plugin,
        headers=_impersonation(user),
    )
    if not certificate:
        return credentials, None
    return credentials, KeyPair(_content(certificate), _content(key))


def _impersonation(user: KubeconfigUser) -> dict[str, str]:
    if not user.impersonate:
        return {}
    if len(user.impersonate_groups) > 1:
        raise ConfigError(f"{user.place}.as-groups: only one group is supported")
    headers = {"Impersonate-User": user.impersonate}
    if user.impersonate_uid:
        headers["Impersonate-Uid"] = user.impersonate_uid
    for group in user.impersonate_groups:
        headers["Impersonate-Group"] = group
    return headers


def _exec_settings(
    user: KubeconfigUser, plugin: ExecConfig, cluster: KubeconfigCluster, server: str
) -> ExecSettings:
    where = f"{user.place}.exec"
    if not plugin.command:
        raise ConfigError(f"{where}.command: must be set")
    if plugin.api_version not in _EXEC_VERSIONS:
        error = ConfigError(f"{where}.apiVersion: {plugin.api_version!r} is not supported")
        error.add_note(f"use {' or '.join(_EXEC_VERSIONS)}")
        raise error
    if plugin.interactive_mode == "Always":
        raise ConfigError(
            f"{where}.interactiveMode: 'Always' is not supported: the process has no terminal"
        )
    command = plugin.command
    # As in kubectl: a bare name is looked up, a path is relative to the file.
    if "/" in command:
        command = str(user.path(command))
    if shutil.which(command) is None:
        error = ConfigError(f"{where}.command: executable {plugin.command} not found")
        if plugin.install_hint:
            error.add_note(plugin.install_hint.strip())
        raise error
    return ExecSettings(
        command=command,
        api_version=plugin.api_version,
        args=plugin.args or (),
        env={variable.name: variable.value for variable in plugin.env or ()},
        install_hint=plugin.install_hint,
        cluster=_cluster_of_plugin(cluster, server) if plugin.provide_cluster_info else None,
    )


def _cluster_of_plugin(cluster: KubeconfigCluster, server: str) -> dict[str, Any]:
    described: dict[str, Any] = {"server": server}
    if cluster.tls_server_name:
        described["tls-server-name"] = cluster.tls_server_name
    if cluster.insecure_skip_tls_verify:
        described["insecure-skip-tls-verify"] = True
    if cluster.certificate_authority_data:
        described["certificate-authority-data"] = cluster.certificate_authority_data
    elif cluster.certificate_authority:
        ca = cluster.path(cluster.certificate_authority).read_bytes()
        described["certificate-authority-data"] = base64.b64encode(ca).decode()
    return described


def _data_or_file(
    user: KubeconfigUser, data: str, file: str, field: str, clock: Clock
) -> bytes | FileText:
    where = f"{user.place}.{field}"
    if data:
        return _inline(data, f"{where}-data")
    if not file:
        return b""
    path = user.path(file)
    _check_readable(path, where)
    return FileText(path, clock)


def _content(source: bytes | FileText) -> bytes:
    return source.read() if isinstance(source, FileText) else source


def _inline(data: str, where: str) -> bytes:
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except binascii.Error as exc:
        raise ConfigError(f"{where}: not base64") from exc


def _check_readable(path: Path, where: str) -> None:
    try:
        path.read_bytes()
    except OSError as exc:
        raise ConfigError(f"{where}: {path}: {(exc.strerror or str(exc)).lower()}") from exc


def _server(address: str, where: str, scheme: str = "http") -> str:
    # As in client-go: an address without a scheme is plain HTTP, unless there are TLS settings.
    url = address if "://" in address else f"{scheme}://{address}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        error = ConfigError(f"{where}: {address!r} is not the address of a server")
        error.add_note("write it as https://HOST:PORT")
        raise error
    return url.rstrip("/")
