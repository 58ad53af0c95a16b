"""Kubeconfig files: merging, and an error of one line for each problem."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from kubesched.errors import ConfigError
from kubesched.foundation.client.connections import (
    connect_in_cluster,
    connect_process,
    connect_selected,
)
from kubesched.foundation.client.credentials import Credential
from kubesched.foundation.client.kubeconfig import kubectl_files, load_kubeconfig
from kubesched.foundation.util.clock import SECOND, ManualClock

AGENT = "test"


def document(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster or {"server": "http://api:1"}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **more,
    }


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def connect(path: Path, **options: Any) -> Any:
    selected = load_kubeconfig([path], must_exist=True).select()
    return connect_selected(selected, ManualClock(), user_agent=AGENT, **options)


def credential(connection: Any) -> Credential:
    return asyncio.run(connection.credentials.current())


def test_a_token_is_sent_in_a_header(tmp_path: Path) -> None:
    connection = connect(write(tmp_path / "config", document(user={"token": "secret"})))
    assert connection.server == "http://api:1"
    assert credential(connection).headers == {"Authorization": "Bearer secret"}


def test_a_user_with_a_password(tmp_path: Path) -> None:
    user = {"username": "me", "password": "pw"}
    header = credential(connect(write(tmp_path / "config", document(user=user)))).headers
    assert header == {"Authorization": "Basic " + base64.b64encode(b"me:pw").decode()}


def test_a_token_file_is_relative_to_its_kubeconfig_and_read_again(tmp_path: Path) -> None:
    write(tmp_path / "etc" / "tokens" / "t", "first\n")
    path = write(tmp_path / "etc" / "config", document(user={"tokenFile": "tokens/t"}))
    clock = ManualClock()
    selected = load_kubeconfig([path], must_exist=True).select()
    connection = connect_selected(selected, clock, user_agent=AGENT)

    def token() -> str:
        return credential(connection).headers["Authorization"]

    assert token() == "Bearer first"
    write(tmp_path / "etc" / "tokens" / "t", "second")
    assert token() == "Bearer first"
    clock.advance(10 * SECOND)
    assert token() == "Bearer second"
    write(tmp_path / "etc" / "tokens" / "t", "third")
    connection.credentials.refused()
    assert token() == "Bearer third"
    (tmp_path / "etc" / "tokens" / "t").unlink()
    clock.advance(10 * SECOND)
    assert token() == "Bearer third"  # cached until there is a new one


def test_the_first_file_decides(tmp_path: Path) -> None:
    first = write(
        tmp_path / "a" / "config",
        {
            "users": [{"name": "u", "user": {"token": "one"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        },
    )
    second = write(tmp_path / "b" / "config", document(user={"token": "two"}))
    missing = tmp_path / "c" / "config"
    empty = write(tmp_path / "d" / "config", "")
    files = kubectl_files({"KUBECONFIG": f"{missing}:{empty}:{first}::{second}"})
    selected = load_kubeconfig(files, must_exist=False).select()
    assert selected.context == "x"  # set by the second file alone
    assert selected.user.token == "one"
    assert selected.cluster.server == "http://api:1"


def test_kubectl_reads_the_home_directory_by_default() -> None:
    assert kubectl_files({"HOME": "/home/me"}) == [Path("/home/me/.kube/config")]


def test_master_overrides_the_address_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document(user={"token": "secret"}))
    connection = connect(path, master="http://other:2/")
    assert connection.server == "http://other:2"
    assert credential(connection).headers["Authorization"] == "Bearer secret"


def test_an_address_without_a_scheme_is_https_if_tls_is_configured(tmp_path: Path) -> None:
    plain = connect(write(tmp_path / "a", document({"server": "api:1"})))
    assert plain.server == "http://api:1"
    cluster = {"server": "api:1", "insecure-skip-tls-verify": True, "tls-server-name": "k"}
    secured = connect(write(tmp_path / "b", document(cluster)))
    assert secured.server == "https://api:1"
    assert secured.tls.server_name == "k"


def test_nulls_count_as_absent(tmp_path: Path) -> None:
    user = {"exec": None, "token": "t", "client-certificate": None}
    connection = connect(write(tmp_path / "config", document(user=user, preferences=None)))
    assert credential(connection).headers == {"Authorization": "Bearer t"}


def test_in_cluster_uses_the_service_account(tmp_path: Path) -> None:
    write(tmp_path / "token", "t")
    write(tmp_path / "ca.crt", "pem")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    connection = connect_in_cluster(
        ManualClock(), environ, user_agent=AGENT, service_account=tmp_path
    )
    assert connection.server == "https://[fd00::1]:443"
    assert credential(connection).headers == {"Authorization": "Bearer t"}
    assert connection.ca_file is not None
    assert connection.ca_file.read() == b"pem"


def test_without_flags_outside_a_cluster_the_error_has_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unable to load in-cluster configuration") as error:
        connect_process("", "", ManualClock(), {"HOME": str(tmp_path)}, user_agent=AGENT)
    assert error.value.__notes__ == ["pass --kubeconfig FILE, or set KUBECONFIG"]


def test_without_flags_outside_a_cluster_the_files_in_kubeconfig_are_used(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document())
    connection = connect_process("", "", ManualClock(), {"KUBECONFIG": str(path)}, user_agent=AGENT)
    assert connection.server == "http://api:1"


class Wrong(NamedTuple):
    content: Any
    message: str
    note: str = ""


def wrong_user(message: str, note: str = "", **user: Any) -> Wrong:
    return Wrong(document(user=user), message, note)


def wrong_cluster(message: str, **cluster: Any) -> Wrong:
    return Wrong(document({"server": "https://api:1", **cluster}), message)


WRONG = {
    "not YAML": Wrong("a: [\n", "FILE:2: not YAML: "),
    "not a kubeconfig": Wrong(
        {"kind": "Pod"}, "FILE: kind: 'Pod' is not a kubeconfig, expected 'Config'"
    ),
    "a value of the wrong type": Wrong(
        document(user={"token": 5}), "FILE: users[0].user.token: expected str, got int"
    ),
    "a list": Wrong("[]", "FILE: document: expected object, got array"),
    "no context": Wrong(
        document(**{"current-context": ""}),
        "FILE: current-context: none is set",
        "choose one with `kubectl config use-context`: x",
    ),
    "a context that is not there": Wrong(
        document(**{"current-context": "production"}),
        "FILE: current-context: there is no context named 'production'",
        "there are: x",
    ),
    "a cluster that is not there": Wrong(
        document(contexts=[{"name": "x", "context": {"cluster": "d"}}]),
        "FILE: contexts[x].context: cluster: there is no cluster named 'd'",
        "there are: c",
    ),
    "a user that is not there": Wrong(
        document(contexts=[{"name": "x", "context": {"cluster": "c", "user": "uu"}}]),
        "FILE: contexts[x].context: user: there is no user named 'uu'",
        "did you mean 'u'?",
    ),
    "no server": Wrong(
        document({"tls-server-name": "a"}), "FILE: clusters[c].cluster.server: must be set"
    ),
    "not an address": Wrong(
        document({"server": "ftp://x"}),
        "FILE: clusters[c].cluster.server: 'ftp://x' is not the address of a server",
        "write it as https://HOST:PORT",
    ),
    "insecure and a CA": wrong_cluster(
        "FILE: clusters[c].cluster.insecure-skip-tls-verify: specifying a root certificates file "
        "with the insecure flag is not allowed",
        **{"insecure-skip-tls-verify": True, "certificate-authority-data": "YQ=="},
    ),
    "a CA that is not base64": wrong_cluster(
        "FILE: clusters[c].cluster.certificate-authority-data: not base64",
        **{"certificate-authority-data": "%%"},
    ),
    "a CA that is not PEM": wrong_cluster(
        "FILE: context 'x': certificate authority: not usable PEM",
        **{"certificate-authority-data": "YQ=="},
    ),
    "a CA file that is not there": wrong_cluster(
        "FILE: clusters[c].cluster.certificate-authority: DIR/ca.pem: no such file or directory",
        **{"certificate-authority": "ca.pem"},
    ),
    "a proxy": wrong_cluster(
        "FILE: clusters[c].cluster.proxy-url: proxies are not supported",
        **{"proxy-url": "http://p"},
    ),
    "a certificate without its key": wrong_user(
        "FILE: users[u].user.client-key: must be set together with client-certificate",
        **{"client-certificate-data": "YQ=="},
    ),
    "a key without its certificate": wrong_user(
        "FILE: users[u].user.client-certificate: must be set together with client-key",
        **{"client-key-data": "YQ=="},
    ),
    "a pair that is none": wrong_user(
        "FILE: context 'x': client certificate: not a usable pair of PEM",
        **{"client-certificate-data": "YQ==", "client-key-data": "YQ=="},
    ),
    "a token file that is not there": wrong_user(
        "FILE: users[u].user.tokenFile: DIR/t: no such file or directory", tokenFile="t"
    ),
    "two ways to log in": wrong_user(
        "FILE: users[u].user: more than one authentication method found; found [token basicAuth], "
        "only one is allowed",
        token="t",
        username="u",
    ),
    "an auth provider": wrong_user(
        "FILE: users[u].user.auth-provider: no longer exists in Kubernetes",
        "use an exec plugin",
        **{"auth-provider": {"name": "gcp"}},
    ),
    "a plugin without a command": wrong_user(
        "FILE: users[u].user.exec.command: must be set",
        exec={"apiVersion": "client.authentication.k8s.io/v1"},
    ),
    "a plugin of a removed version": wrong_user(
        "FILE: users[u].user.exec.apiVersion: 'client.authentication.k8s.io/v1alpha1' is not "
        "supported",
        "use client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1",
        exec={"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"},
    ),
    "a plugin that is not installed": wrong_user(
        "FILE: users[u].user.exec.command: executable no-such-plugin not found",
        "install it with care",
        exec={
            "command": "no-such-plugin",
            "apiVersion": "client.authentication.k8s.io/v1",
            "installHint": "install it with care\n",
        },
    ),
    "a plugin that needs a terminal": wrong_user(
        "FILE: users[u].user.exec.interactiveMode: 'Always' is not supported: the process has no "
        "terminal",
        exec={
            "command": "x",
            "apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Always",
        },
    ),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_invalid_kubeconfigs_are_reported_in_one_line(case: Wrong, tmp_path: Path) -> None:
    path = write(tmp_path / "config", case.content)
    with pytest.raises(ConfigError) as error:
        connect(path)
    shown = str(error.value).replace(str(path), "FILE").replace(str(tmp_path), "DIR")
    assert shown.startswith(case.message)
    assert "\n" not in shown
    assert getattr(error.value, "__notes__", [""])[0] == case.note


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such kubeconfig file"):
        connect(tmp_path / "none")
    with pytest.raises(ConfigError, match="is a directory"):
        connect(tmp_path)


def test_files_that_do_not_exist_are_named(tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    merged = load_kubeconfig([lost], must_exist=False)
    with pytest.raises(ConfigError, match=f"^{lost}: there is no such kubeconfig file$"):
        merged.select()
