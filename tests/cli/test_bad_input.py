"""Invalid input of every command: an error of one line, and no loss of data.

The commands run in this process, except for tests of closed and full standard streams.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubesched.cli.main import main

NODE = (
    "apiVersion: v1\nkind: Node\nmetadata: {name: 'n'}\n"
    "status: {allocatable: {cpu: 4, memory: 1Gi, pods: 10}}\n"
)
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
CONFIG = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "parallelism: 0\nfoo: 1\n"
)


def kubeconfig(server: str, cluster: str = "", user: str = "{}", current: str = "c") -> str:
    return (
        "apiVersion: v1\nkind: Config\n"
        f"clusters: [{{name: c, cluster: {{server: '{server}'{cluster}}}}}]\n"
        f"users: [{{name: u, user: {user}}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        f"current-context: {current}\n"
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Change to a folder with all the invalid files."""
    with socket.socket() as busy, socket.socket() as closed:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        closed.bind(("127.0.0.1", 0))  # no process listens
        monkeypatch.setenv("BUSY", str(busy.getsockname()[1]))
        dead = closed.getsockname()[1]
        for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        (tmp_path / "folder").mkdir()
        certificate = "{client-certificate-data: AAAA, client-key-data: AAAA}"
        command = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: nope-nope}}"
        for name, text in {
            "empty": "",
            "nocontext": "apiVersion: v1\nkind: Config\n",
            "dead": kubeconfig(f"http://127.0.0.1:{dead}"),
            "badurl": kubeconfig("::::"),
            "badca": kubeconfig("https://127.0.0.1:1", ", certificate-authority: /nope"),
            "badcontext": kubeconfig("http://127.0.0.1:1", current="nope"),
            "badexec": kubeconfig("http://127.0.0.1:1", user=command),
            "badcertificate": kubeconfig("https://127.0.0.1:1", user=certificate),
            "node.yaml": NODE,
            "pod.yaml": POD,
            "config.yaml": CONFIG,
            "precious": "what was there",
        }.items():
            (tmp_path / name).write_text(text)
        (tmp_path / "binary").write_bytes(bytes(range(256)))
        (tmp_path / "folder.html").mkdir()
        (tmp_path / "circle").symlink_to("circle")
        (tmp_path / "dangling").symlink_to("nowhere/at/all")
        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as file:
            file.bind("socket")
        yield tmp_path


def run(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[object, list[str]]:
    """Return the exit code and standard error. Any other exception fails the test."""
    argv = ["kubesched", *map(os.path.expandvars, shlex.split(line))]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr().err.splitlines()


KUBECONFIGS = {
    "folder": "folder: is a directory",
    "empty": "empty: current-context: none is set",
    "binary": "binary: not YAML: .* control characters",
    "nocontext": "nocontext: current-context: none is set",
    "dead": r"http://127.0.0.1:\d+: connection refused",
    "badurl": r"badurl: clusters\[c\].cluster.server: '::::' is not the address of a server",
    "badca": r"badca: clusters\[c\].cluster.certificate-authority: /nope: no such file",
    "badcontext": "badcontext: current-context: there is no context named 'nope'",
    "badexec": r"badexec: users\[u\].user.exec.command: executable nope-nope not found",
    "badcertificate": "badcertificate: context 'c': client certificate: not a usable pair of PEM",
    "missing": "missing: there is no such kubeconfig file",
}
ON_A_CLUSTER = (
    "record -o precious --for 1s",
    "capture -o precious",
    "node add",
    "explain pod p",
    "fit -f pod.yaml",
    "whatif --add 1",
    "dashboard",
)


@pytest.mark.parametrize("name", KUBECONFIGS)
def test_kubeconfigs(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ON_A_CLUSTER:
        code, said = run(f"{command} --kubeconfig {name}", monkeypatch, capsys)
        assert code in (1, 2), command
        assert re.match(f"kubesched: {KUBECONFIGS[name]}", said[0]), (command, said)
        assert all(line.startswith("  ") for line in said[1:]), (command, said)
    assert (place / "precious").read_text() == "what was there"


NOT_AN_ADDRESS = (
    *("0x", "-1", "65536", "9" * 20, "a:b", "host:", "[::1", "[::1:5", "é:1", ":80"),
    # The resolver raises a UnicodeError for these names, or needs seconds to find nothing.
    *("1:2:3", "a" * 300 + ":1", "a." * 150 + "b:1", "a..b:1", ".:1", "[zz]:1"),
)
LINES = {
    **{
        f"{command} --listen {address}": f"invalid value for '--listen': '{re.escape(address)}' is"
        for address in NOT_AN_ADDRESS
        for command in ("up --exit", "dashboard -f node.yaml")
    },
    "up --exit -q --listen 127.0.0.1:$BUSY": r"cannot listen on .* \d+: Address already",
    "dashboard -f node.yaml --listen 127.0.0.1:$BUSY": r"cannot listen on .* \d+: Address already",
    "up --exit -q --listen 256.1.1.1:5": r"cannot listen on 256.1.1.1 port 5: (?!Unknown)",
    "record -o folder --kubeconfig dead": "invalid value .*: File 'folder' is a directory",
    "capture -o folder -f node.yaml": "invalid value .*: File 'folder' is a directory",
    "capture -o '' -f node.yaml": r"\.: cannot be written: Is a directory",
    "capture -o circle -f node.yaml": "circle: cannot be written: Too many levels of symbolic",
    "capture -o dangling -f node.yaml": "dangling: cannot be written: No such file",
    "capture -o socket -f node.yaml": "socket: cannot be written: No such device",
    "simulate pod.yaml -o folder": "folder: results are written as .html, .json or .parquet",
    # The check comes before the scenario is read, and long before the run ends.
    "simulate pod.yaml -o /nope/x.json": "/nope/x.json: cannot be written: No such file",
    "simulate pod.yaml -o node.yaml/x.html": "node.yaml/x.html: cannot be written: Not a directory",
    "simulate pod.yaml -o folder.html": "folder.html: cannot be written: Is a directory",
    "simulate pod.yaml -o circle/x.history": "circle/x.history: cannot be written: Too many levels",
    "fit -f socket": "socket: cannot be read: No such device",
    "fit -f circle": "circle: cannot be read: Too many levels of symbolic links",
    "tune socket": "socket: cannot be read: No such device",
    "tune folder": "folder: cannot be read: Is a directory",
    "tune binary": "binary:1: ",
    "config validate circle": "circle: too many levels of symbolic links",
    "capture -o /nope/x -f node.yaml": "/nope/x: cannot be written: No such file",
    "capture -o node.yaml/x -f node.yaml": "node.yaml/x: cannot be written: Not a directory",
    "capture -o /dev/full -f node.yaml": "/dev/full: cannot be written: No space left",
    "capture -o x -f node.yaml --config config.yaml": "config.yaml:3: parallelism: Invalid value",
    "up --exit -q -f node.yaml --data /nope/x": "cannot use /nope/x: No such file",
    "up --exit -q -f node.yaml --data folder": "invalid value .*: File 'folder' is a directory",
    "up --exit -q -f missing": "missing:1: cannot be read: No such file",
    "up --exit -q -f folder": "folder:1: a directory without YAML or JSON files",
    "up --exit -q --config config.yaml": "config.yaml:3: parallelism: Invalid value: 0",
    "up --exit -q --plugin nope": "plugin nope: expected module:Class or the path of a .py file",
    "up --exit --timeout -1": "invalid value for '--timeout': -1 is not in the range",
    "up --exit --timeout nan": "invalid value for '--timeout': 'nan' is not a valid integer",
    "up --exit --seed x": "invalid value for '--seed': 'x' is not a valid integer",
    "up --name 'a b'": "invalid value for '--name': 'a b' is no name",
    "up --name ../x": "invalid value for '--name': '../x' is no name",
    "down": "which cluster\\? name one, or give --all; there are: none",
    "down nope": "no cluster is named 'nope'",
    "logs nope -o json": "no cluster is named 'nope'",
    "logs": "missing argument 'NAME'",
    "logs nope --tail -1": "invalid value for '--tail': -1 is not in the range",
    "node stop": "name some nodes, or select them with --selector",
    "node remove x --name nope": "no cluster is named 'nope'",
    "node add --count 0": "invalid value for '--count': 0 is not in the range",
    "node add --cpu x": "invalid value for '--cpu': 'x': quantities must match",
    "node add --device x": "invalid value for '--device': 'x' is not DRIVER:COUNT",
    "node add --partitions 33": "invalid value for '--partitions': 33 is not in the range",
    "config validate missing": "missing: no such file or directory",
    "config validate /dev/zero": "/dev/zero: file too large",
    # A file that can be opened but not read, as on a failing disk.
    **{
        f"{command} /proc/self/mem": r"/proc/self/mem: .*[iI]nput/output error"
        for command in (
            "up --exit -q -f node.yaml --config",
            "up --exit -q -f node.yaml --behavior",
            "explain pod p --capture",
            "explain pod p --kubeconfig",
            "dashboard --report",
            "fit -f",
            "check",
            "simulate",
            "tune",
            "config validate",
        )
    },
    "run --config /proc/self/mem": r'.*err="open /proc/self/mem: input/output error"',
    "capture -o /proc/x -f node.yaml": "/proc/x: cannot be written: ",
    "up --exit -q -f node.yaml --data /proc/x": "cannot use /proc/x: ",
    "up --exit -q -f node.yaml --listen 127.0.0.1:0 --kubeconfig /proc/x": "cannot write /proc/x: ",
    "explain pod p --kubeconfig /dev/zero": "/dev/zero: file too large",
    "config validate folder": "folder: is a directory",
    "config default --feature-gates X=y": "invalid value of X=y",
    "fit -f missing": "missing: cannot be read: No such file",
    "fit -f pod.yaml --replicas 0": "invalid value for '--replicas': 0 is not in the range",
    "fit -f pod.yaml --capture missing": "invalid value for '--capture': File 'missing' does not",
    "fit -f node.yaml -f pod.yaml --config config.yaml": "config.yaml:3: parallelism: Invalid",
    "fit -f node.yaml -f pod.yaml --plugin nope:Nope": "plugin nope:Nope: cannot be imported",
    "explain pod p -f node.yaml --config config.yaml": "config.yaml:3: parallelism: Invalid value",
    "explain pod p -f node.yaml": "no pod default/p among 0 pods",
    "explain pod p --capture binary": "binary: not a capture",
    "explain pod p --scheduler nope": "--scheduler 'nope': expected https://HOST:PORT",
    "whatif -f node.yaml --add 99999999999": "invalid value for '--add': 99999999999 is not in",
    "whatif -f node.yaml --drain nope": "no node named 'nope'",
    "whatif -f node.yaml --scale x=-1": "invalid value for '--scale': 'x=-1' is not",
    "whatif -f node.yaml --scale deploy/x=1": "no Deployment default/x",
    "whatif -f node.yaml --taint x": "invalid value for '--taint': 'x' is not",
    "check missing": "missing: cannot be read: No such file",
    "check folder": "folder: no placement tests found",
    "check node.yaml": "node.yaml:2: kind: must be PlacementTest, not 'Node'",
    "simulate missing": "missing: cannot be read: No such file",
    "simulate folder": "folder: cannot be read: Is a directory",
    "simulate node.yaml": "node.yaml:2: kind: must be Scenario, not 'Node'",
    "simulate --diff a b": "a: cannot be read: No such file",
    "tune missing": "missing: cannot be read: No such file",
    "dashboard --capture node.yaml": "node.yaml: not a capture",
    "dashboard --report node.yaml": "node.yaml: not a history of a simulation",
    "dashboard --capture node.yaml -f x": "choose one of --capture, --recorded, --report and -f",
    "run --config missing": r'.*"command failed" err="open missing: no such file or directory"',
    "run --kubeconfig dead --secure-port 65536": r'.*err="--secure-port 65536 must be between',
    "run --kubeconfig dead --secure-port x": 'Error: invalid argument "x" for "--secure-port" flag',
    "run --kubeconfig dead --client-ca-file missing": ".*unable to load client-ca-file",
    "run --kubeconfig dead --write-config-to folder": '.*"command failed" err="open folder: is a',
    "run --nope": "Error: unknown flag: --nope",
    "run x": 'Error: "kube-scheduler" does not take any arguments, got',
}


@pytest.mark.parametrize(("line", "want"), LINES.items(), ids=LINES)
def test_bad_input_is_reported_in_one_line(
    line: str,
    want: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, said = run(line, monkeypatch, capsys)
    assert code in (1, 2)
    command = r"(kubesched( \w+)*: )?"
    # A scheduler may log warnings before the error.
    first = next((each for each in said if not re.match(r"[IW]\d{4} ", each)), "")
    assert re.match(command + want, first), said
    assert not any("Traceback" in each for each in said)
    rest = [each for each in said if each is not first and not re.match(r"[IW]\d{4} ", each)]
    assert all(each.startswith("  ") or re.match(r"\S+:\d+: ", each) for each in rest), said


def test_a_recording_of_a_cluster_that_does_not_answer(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        text = kubeconfig(f"http://127.0.0.1:{silent.getsockname()[1]}")
        (place / "silent").write_text(text)
        code, said = run("record -o precious --for 1ms --kubeconfig silent", monkeypatch, capsys)
    assert code == 1
    want = "kubesched: precious: nothing was written: the cluster did not answer in time"
    assert said == [want]
    assert (place / "precious").read_text() == "what was there"


def kubesched(line: str) -> tuple[int, str]:
    """Run a command with a shell; return its exit code and standard error."""
    shell = f"exec {shlex.quote(sys.executable)} -m kubesched.cli.main {line}"
    done = subprocess.run(["/bin/bash", "-c", shell], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_standard_streams_that_are_closed_or_full(tmp_path: Path) -> None:
    assert kubesched("config default > /dev/full") == (1, "kubesched: No space left on device\n")
    assert kubesched("config validate - <&-") == (2, "-: standard input is closed\n")
    assert kubesched("explain pod p -f - <&-")[1] == "kubesched: standard input is closed\n"


def test_a_reader_may_stop_early(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        "cluster:\n  nodes: [{name: 'n', count: 1, cpu: 1, memory: 1Gi}]\nduration: 1m\n"
    )
    for line in ("run --help", "config default", f"simulate {scenario} -o json"):
        code, said = kubesched(f"{line} > >(exec true)")
        assert said == "", line
        assert code in (0, 1), line  # either end of the pipe may close first
