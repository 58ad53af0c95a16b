"""`kubesched up` as a user runs it: a process, its output and its exit code."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: z1}}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
"""


def pod(name: str, cpu: str, extra: str = "") -> str:
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  {extra}
  containers:
  - {{name: c, image: app, resources: {{requests: {{cpu: {cpu}}}}}}}
"""


def kubesched(*args: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kubesched.cli.main", *args]
    return subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=120, check=False
    )


def write(folder: Path, name: str, *documents: str) -> str:
    path = folder / name
    path.write_text("---\n".join(documents))
    return str(path)


def test_the_sample_explains_its_pending_pods() -> None:
    done = kubesched("up", "-o", "json")
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    assert (summary["total"], len(summary["nodes"])) == (300, 30)
    assert len({node["zone"] for node in summary["nodes"]}) == 3
    assert summary["bound"] + len(summary["pending"]) == 300
    reasons = {workload_of(each): each["reason"] for each in summary["pending"]}
    assert reasons["gated"] == "SchedulingGated"
    assert reasons["giant"] == "Unschedulable"
    messages = {workload_of(each): each["message"] for each in summary["pending"]}
    assert 'persistentvolumeclaim "ledger" not found' in messages["ledger"]
    assert "database" not in reasons, "it has its volumes"
    # Three GPUs by claim and one as an extended resource fit; eight on one node do not.
    assert [name for name in reasons if name.startswith("gpu")] == ["gpu-eight"]
    assert sum(node["pods"] for node in summary["nodes"]) == summary["bound"]
    assert all(node["cpuMilli"] <= node["allocatableCpuMilli"] for node in summary["nodes"])
    assert "pods placed" in done.stderr


def workload_of(pod: dict[str, Any]) -> str:
    """The name of a pod without what a controller adds: a hash of the template, a suffix."""
    name: str = pod["name"]
    return re.sub("(-[bcdfghjklmnpqrstvwxz2456789]{8,10})?-[a-z0-9]{3,5}$", "", name)


def test_the_same_seed_creates_the_same_nodes() -> None:
    first, second = kubesched("up", "-o", "json"), kubesched("up", "-o", "json")
    assert generated(json.loads(first.stdout)) == generated(json.loads(second.stdout))
    other = kubesched("up", "-o", "json", "--seed", "1")
    assert json.loads(other.stdout)["nodes"] != json.loads(first.stdout)["nodes"]


def generated(summary: dict[str, Any]) -> Any:
    """Return what the seed decides.

    Which pods have a node depends on the order in which controllers and kubelets, which run in real
    time, create and complete pods.
    """
    fields = ("name", "zone", "allowedPods", "allocatableCpuMilli", "allocatableMemoryBytes")
    return summary["total"], [[node[each] for each in fields] for node in summary["nodes"]]


def test_the_pods_of_the_sample_have_owners_that_replace_them() -> None:
    sample = resources.files("kubesched.cli") / "samples" / "workload.yaml"
    kinds = Counter(each["kind"] for each in yaml.safe_load(sample.read_text())["items"])
    assert kinds["Pod"] == 1, "one without an owner, as if created by hand"
    assert kinds["Deployment"] > 5
    assert kinds["Job"] > 2


def test_manifests_are_read_from_standard_input(tmp_path: Path) -> None:
    nodes = write(tmp_path, "nodes.yaml", NODE)
    pods = pod("fits", "1") + "---\n" + pod("not", "3")
    done = kubesched("up", "-f", nodes, "-f", "-", given=pods)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["n1", "z1", "1/10", "1/2", "0.0/4", "GiB"] in lines
    [pending] = [line for line in done.stdout.splitlines() if line.startswith("default/not")]
    assert "Insufficient cpu: asks 3, and even the largest node, n1, has only 2 in all" in pending
    assert "kubesched explain pods" in done.stderr
    assert done.stdout.rstrip().endswith("1 of 2 pods bound, 1 pending")


def test_without_a_scheduler_nothing_is_placed(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", NODE, pod("own", "1"))
    done = kubesched("up", "-f", path, "--no-scheduler")
    assert done.returncode == 0, done.stderr
    assert "waits for scheduler 'default-scheduler'" in done.stdout
    assert done.stdout.rstrip().endswith("0 of 1 pods bound, 1 pending")
    refused = kubesched("up", "-f", path, "--no-scheduler", "--config", path)
    assert refused.returncode == 2
    assert "--no-scheduler excludes --config" in refused.stderr


def test_a_pod_of_another_scheduler_is_not_waited_for(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", NODE, pod("foreign", "1", "schedulerName: other"))
    done = kubesched("up", "-f", path)
    assert done.returncode == 0, done.stderr
    assert "waits for scheduler 'other'" in done.stdout


BROKEN = {
    "not YAML": ("a: [1\n", ":2: "),
    "a duplicate key": (NODE + "kind: Node\n", ":5: "),
    "no kind": ("apiVersion: v1\nmetadata: {name: x}\n", ":1: kind is missing"),
    "a bad quantity": (pod("p", "much"), ":7: "),
    "a name that no server accepts": (pod("Not_A_Name", "1"), ":3: "),
    "a field of the wrong type": (NODE.replace('"10"', "[1]"), ":4: "),
}


@pytest.mark.parametrize(("text", "place"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_with_its_line_and_nothing_is_applied(
    tmp_path: Path, text: str, place: str
) -> None:
    good, bad = write(tmp_path, "good.yaml", NODE), write(tmp_path, "bad.yaml", text)
    done = kubesched("up", "-f", good, "-f", bad)
    assert done.returncode == 2
    assert f"{bad}{place}" in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_missing_file_and_a_bad_configuration_are_one_line_each(tmp_path: Path) -> None:
    missing = kubesched("up", "-f", str(tmp_path / "none.yaml"))
    assert missing.returncode == 2
    assert len(missing.stderr.splitlines()) == 1
    config = write(tmp_path, "config.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: X\n")
    refused = kubesched("up", "--config", config)
    assert refused.returncode == 2
    assert 'no kind "X" is registered' in refused.stderr


def test_a_configuration_file_is_honoured(tmp_path: Path) -> None:
    config = write(
        tmp_path,
        "config.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine}]\n",
    )
    objects = write(tmp_path, "o.yaml", NODE, pod("p", "1", "schedulerName: mine"))
    done = kubesched("up", "--config", config, "-f", objects)
    assert "1 of 1 pods bound" in done.stdout, done.stderr


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a Python process whose end, in order or not, leaves no process and no open pipe."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str], beginning: str) -> str:
    """Return the next line of standard error that has this beginning."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(beginning):
            return line.rstrip()
    raise AssertionError(f"no line begins with {beginning!r}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_stops_the_cluster_and_cleans_up(
    tmp_path: Path, number: signal.Signals
) -> None:
    objects = write(tmp_path, "o.yaml", NODE, pod("p", "1"))
    code = (
        "import sys\n"
        "sys.stdout.isatty = lambda: True\n"
        "from kubesched.cli.main import main\n"
        f"sys.argv = ['kubesched', 'up', '-f', {objects!r}]\n"
        "main()\n"
    )
    with started("-c", code) as process:
        kubeconfig = Path(next_line(process, "export KUBECONFIG=").partition("=")[2])
        assert kubeconfig.exists()
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "1 of 1 pods bound" in out
    assert not kubeconfig.exists()


def test_a_watched_configuration_is_loaded_again(tmp_path: Path) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    config = Path(write(tmp_path, "config.yaml", head))
    objects = write(tmp_path, "o.yaml", NODE, pod("p", "1"))
    options = [
        *("-f", objects, "--listen=127.0.0.1:0", f"--kubeconfig={tmp_path / 'kubeconfig'}"),
        *(f"--config={config}", "--watch-config"),
    ]
    with started("-m", "kubesched.cli.main", "up", *options) as process:
        next_line(process, "export KUBECONFIG=")
        config.write_text(f"{head}extenders: []\nparallelism: 3\n")
        line = next_line(process, str(config))
        assert line.startswith(
            f"{config} was not loaded, the old one stays in use: a change of parallelism"
        )
        config.write_text(f"{head}profiles: [{{schedulerName: other}}]\n")
        assert next_line(process, str(config)) == f"{config} was loaded"
        process.send_signal(signal.SIGHUP)
        assert next_line(process, str(config)) == f"{config} has not changed"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_the_api_is_served_on_the_requested_address(tmp_path: Path) -> None:
    objects = write(tmp_path, "o.yaml", NODE, pod("p", "1"))
    config = tmp_path / "kubeconfig"
    options = ["-f", objects, "--listen", "127.0.0.1:0", "--kubeconfig", str(config)]
    with started("-m", "kubesched.cli.main", "up", *options) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line.strip())
            if "export KUBECONFIG" in line:
                break
        document = yaml.safe_load(config.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        assert config.stat().st_mode & 0o777 == 0o600
        assert f"API server: {cluster['server']}" in lines
        assert lines[-1] == f"export KUBECONFIG={config}"
        assert "Running; Ctrl-C stops." in lines
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        asked = urllib.request.Request(
            f"{cluster['server']}/api/v1/namespaces/default/pods/p",
            headers={"Authorization": f"Bearer {user['token']}"},
        )
        trusted = ssl.create_default_context(cadata=authority)
        with urllib.request.urlopen(asked, context=trusted, timeout=20) as answer:
            assert json.load(answer)["spec"]["nodeName"] == "n1"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("address", ["x", "host:", ":1", "host:99999"])
def test_an_invalid_address_is_refused(address: str) -> None:
    done = kubesched("up", "--listen", address)
    assert done.returncode == 2
    assert "is not HOST:PORT" in done.stderr


def test_an_address_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        objects = write(tmp_path, "o.yaml", NODE)
        done = kubesched("up", "-f", objects, "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 1
    refusal = f"kubesched: cannot listen on 127.0.0.1 port {port}: Address already in use\n"
    assert done.stderr == refusal


DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: app, resources: {requests: {cpu: 500m}}}]}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: sums}
spec:
  completions: 4
  parallelism: 2
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: app}]}}
"""
DAEMON_SET = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: app}]}
"""


REPLICATION_CONTROLLER = """\
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 2
  selector: {app: old}
  template:
    metadata: {labels: {app: old}}
    spec: {containers: [{name: c, image: app}]}
"""
CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: yearly}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: app}]}}}
"""
QUOTA = """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: few}
spec: {hard: {pods: "1"}}
"""


@pytest.mark.parametrize(
    ("owner", "count"),
    [(DEPLOYMENT, 3), (JOB, 2), (DAEMON_SET, 1), (REPLICATION_CONTROLLER, 2)],
)
def test_pods_that_a_controller_makes_are_waited_for(
    tmp_path: Path, owner: str, count: int
) -> None:
    done = kubesched("up", "-f", write(tmp_path, "all.yaml", NODE, owner))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{count} of {count} pods bound, 0 pending"


def test_pods_that_may_never_be_created_are_reported_not_awaited(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", NODE, QUOTA, DEPLOYMENT, CRON_JOB)
    done = kubesched("up", "-f", path, "-o", "json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["total"], summary["bound"], summary["undecided"]) == (1, 1, {})
    refused = summary["remarks"].pop("Deployment default/web")
    assert refused.startswith("1 of 3 pods made: "), refused
    assert "exceeded quota: few" in refused
    (when,) = summary["remarks"].values()
    assert when.startswith("next Job at ")
    assert when.endswith("-01-01T00:00:00Z")


def test_a_quiet_command_prints_only_its_result(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", NODE, pod("giant", "3"))
    done = kubesched("up", "-f", path, "--quiet", "--fail-on-pending")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_a_preempted_pod_is_not_waited_for_and_its_preemptor_is(tmp_path: Path) -> None:
    high = (
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 9\n"
    )
    low = pod("low", "2", "nodeName: n1")
    preemptor = pod("preemptor", "2", "priorityClassName: high")
    path = write(tmp_path, "all.yaml", high, NODE, low, preemptor)
    done = kubesched("up", "-f", path, "--fail-on-pending", "-o", "json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["total"], summary["bound"], summary["undecided"]) == (1, 1, {})
    assert summary["nodes"][0]["cpuMilli"] == 2000


HOLDER = """\
from kubesched.framework import SUCCESS, Plugin, Status

class Holder(Plugin):
    name = "Holder"
    def pre_enqueue(self, pod):
        held = pod.metadata.name.startswith("held")
        return Status.unresolvable("not before noon") if held else SUCCESS
"""


def test_a_pod_that_a_plugin_holds_back_is_named(tmp_path: Path) -> None:
    plugin = tmp_path / "holder.py"
    plugin.write_text(HOLDER)
    path = write(tmp_path, "all.yaml", NODE, pod("held", "1"), pod("free", "1"))
    done = kubesched("up", "-f", path, "--plugin", str(plugin), "-o", "json")
    assert done.returncode == 0, done.stderr
    (pending,) = json.loads(done.stdout)["pending"]
    assert pending == {
        "namespace": "default",
        "name": "held",
        "reason": "Held",
        "message": "kept out of the queue by plugin Holder",
    }


def test_pending_pods_fail_the_command_on_request(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", NODE, pod("giant", "3"))
    assert kubesched("up", "-f", path).returncode == 0
    done = kubesched("up", "-f", path, "--fail-on-pending")
    assert done.returncode == 1
    assert "0 of 1 pods bound, 1 pending" in done.stdout


WAITER = """\
from kubesched.framework import Plugin, Wait

class Waiter(Plugin):
    name = "Waiter"
    def permit(self, state, pod, node_name):
        return Wait(3600 * 10**9)
"""


def test_the_summary_comes_even_if_time_runs_out(tmp_path: Path) -> None:
    plugin = tmp_path / "waiter.py"
    plugin.write_text(WAITER)
    path = write(tmp_path, "all.yaml", NODE, pod("p", "1"))
    done = kubesched("up", "-f", path, "--plugin", str(plugin), "--timeout", "1", "-o", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["undecided"] == {"default/p": "being placed"}
    assert done.stderr.endswith("kubesched: not decided within 1 s: default/p (being placed)\n")


def test_a_misspelt_field_is_refused_as_the_server_refuses_it(tmp_path: Path) -> None:
    path = write(tmp_path, "pod.yaml", pod("p", "1", "nodeSelecter: {a: b}"))
    done = kubesched("up", "-f", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f'{path}:5: unknown field "spec.nodeSelecter"\n'


def test_a_gang_is_placed_whole_with_its_gates_and_refused_without(tmp_path: Path) -> None:
    gang = Path(__file__).parents[2] / "examples" / "gang.yaml"
    gates = "--feature-gates=GenericWorkload=true,GangScheduling=true"
    done = kubesched("up", "-f", str(gang), gates, "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["bound"] == 3
    bigger = tmp_path / "gang.yaml"
    bigger.write_text(gang.read_text().replace('cpu: "2"', 'cpu: "3"'))
    done = kubesched("up", "-f", str(bigger), gates, "-o", "json")
    summary = json.loads(done.stdout)
    assert (summary["bound"], len(summary["pending"])) == (0, 3)
    assert {each["explanation"] for each in summary["pending"]} == {
        "pod group training: 3 of 3 pending pods must fit together, and 2 do"
    }
    done = kubesched("up", "-f", str(gang))
    assert done.returncode == 2
    assert done.stderr.strip().endswith(
        "gang.yaml:13: the server could not find the requested resource "
        "(PodGroup needs the feature gate GenericWorkload)"
    )
