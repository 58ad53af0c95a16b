"""`kubesched explain`, `fit`, `whatif` and `capture`, as a user types them."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubesched.cli.main import cli
from kubesched.explain import ExplainError

CLUSTER = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a, labels: {disk: hdd}},
   status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
- {apiVersion: v1, kind: Node, metadata: {name: b, labels: {disk: ssd}},
   spec: {unschedulable: true}, status: {allocatable: {cpu: "8", memory: 16Gi, pods: "10"}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: shop}
  spec: {containers: [{name: c, resources: {requests: {cpu: "6"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: db, namespace: shop, annotations: {team: blue}}
  spec:
    nodeName: a
    containers: [{name: c, env: [{name: PASSWORD, value: hunter2}],
                  resources: {requests: {cpu: "1"}}}]
  status: {phase: Running}
- {apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, data: {token: aHVudGVyMg==}}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "dump.yaml").write_text(CLUSTER)
    (tmp_path / "pod.yaml").write_text(POD)
    return tmp_path


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(cli, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def answered(*arguments: str) -> Any:
    done = run(*arguments, "-o", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_json_of_a_pending_pod_has_what_is_documented() -> None:
    answer = answered("explain", "pod", "shop/web", "-f", "dump.yaml")
    assert (answer["verdict"], answer["node"], answer["nodes"]) == ("pending", "", 2)
    assert answer["scores"] == []
    for group in answer["groups"]:
        assert {"count", "example", "rejections"} <= group.keys()
        for rejection in group["rejections"]:
            assert {"plugin", "reason", "asked", "available"} <= rejection.keys()
    lacking = answer["groups"][0]["rejections"][0]
    assert (lacking["plugin"], lacking["asked"], lacking["available"]) == (
        "NodeResourcesFit",
        "6",
        "3 on a",
    )
    first = answer["suggestions"][0]
    assert (first["change"], first["verified"], first["node"]) == (
        "request cpu <= 3 (asks 6)",
        True,
        "a",
    )
    assert {"uncordon b", "add one more node like b"} <= {
        each["change"] for each in answer["suggestions"]
    }


def test_the_json_of_a_pod_that_fits_has_its_node_and_scores() -> None:
    answer = answered("explain", "pod", "-f", "pod.yaml", "-f", "dump.yaml", "default/small")
    assert (answer["verdict"], answer["node"]) == ("fits", "a")
    (score,) = answer["scores"]
    assert score["node"] == "a"


def test_the_first_lines_of_the_text_state_cause_and_remedy() -> None:
    done = run("explain", "pod", "shop/web", "-f", "dump.yaml")
    first, second, *_ = done.stdout.splitlines()
    assert first == "shop/web is PENDING: Insufficient cpu: asks 6, and at most 3 is free (on a)."
    assert second.startswith("To fix it: request cpu <= 3 (asks 6), or uncordon b")


def test_no_line_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    done = run("explain", "pod", "shop/web", "-f", "dump.yaml")
    # A command is copied as it is.
    commands = re.compile(r"^     \$ .*$(\n {9}.*$)*", re.MULTILINE)
    assert max(map(len, commands.sub("", done.stdout).splitlines())) <= 60
    assert "\x1b" not in done.stdout


def test_a_pod_from_a_file_is_explained_on_a_capture() -> None:
    assert run("capture", "-f", "dump.yaml", "-o", "c").exit_code == 0
    done = run("explain", "pod", "-f", "pod.yaml", "--capture", "c")
    assert done.stdout.startswith("default/small: FITS. It fits: it would go to a")


def test_one_node_is_explained_with_all_rejections() -> None:
    answer = answered("explain", "pod", "shop/web", "-f", "dump.yaml", "--node", "b")
    (group,) = answer["groups"]
    assert (group["nodes"], group["count"]) == (["b"], 1)


def test_a_placed_pod_is_explained_by_a_comparison_of_nodes() -> None:
    answer = answered(
        "explain", "pod", "default/small", "-f", "pod.yaml", "-f", "dump.yaml", "--versus", "b"
    )
    assert "does not fit" in answer["versus"]["summary"]


def test_the_page_needs_nothing_else() -> None:
    page = run("explain", "pod", "shop/web", "-f", "dump.yaml", "-o", "html").stdout
    assert page.startswith("<!doctype html>")
    assert "Insufficient cpu" in page
    assert not re.search(r'(src|href)="http', page)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("shop/wbe",), "no pod shop/wbe"),
        (("shop/web", "--node", "z"), "no node named 'z'"),
        (("default/small", "-f", "pod.yaml", "--versus", "z"), "no node named 'z'"),
    ],
)
def test_missing_objects_are_named_in_the_error(arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(ExplainError, match=says):
        run("explain", "pod", *arguments, "-f", "dump.yaml")


def test_a_capture_has_neither_secrets_nor_env_nor_annotations() -> None:
    run("capture", "-f", "dump.yaml", "-o", "c")
    text = gzip.decompress(Path("c").read_bytes()).decode()
    assert "hunter2" not in text
    assert "aHVudGVyMg" not in text
    assert "blue" not in text
    assert '"shop"' in text


def test_an_anonymous_capture_answers_the_same_without_the_names() -> None:
    run("capture", "-f", "dump.yaml", "-o", "c", "--anonymize")
    text = gzip.decompress(Path("c").read_bytes()).decode()
    for name in ("shop", '"web"', '"db"', "ssd"):
        assert name not in text
    answer = answered("explain", "pod", "--capture", "c")
    assert "Insufficient cpu: asks 6, and at most 3 is free" in answer["summary"]


def test_fit_takes_the_pods_of_the_files_only() -> None:
    run("capture", "-f", "dump.yaml", "-o", "c")
    answer = answered("fit", "-f", "pod.yaml", "--capture", "c")
    assert (answer["pods"], answer["fits"], answer["nodes"]) == (["default/small"], 3, {"a": 3})
    text = run("fit", "-f", "pod.yaml", "--capture", "c", "--replicas", "5").stdout
    assert text.startswith("default/small: 3 of 5 copies fit")
    assert "more like" in text


def test_whatif_places_a_pod_on_a_changed_node() -> None:
    Path("open.yaml").write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: b, labels: {disk: ssd}}, "
        'status: {allocatable: {cpu: "8", memory: 16Gi, pods: "10"}}}'
    )
    run("capture", "-f", "dump.yaml", "-o", "c")
    for asked in (("-f", "dump.yaml", "--changes"), ("--capture", "c", "-f")):
        answer = answered("whatif", *asked, "open.yaml")
        assert answer["placed"] == [{"pod": "shop/web", "before": "", "after": "b"}]


def test_whatif_applies_another_scheduler_configuration() -> None:
    Path("other.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- plugins: {filter: {disabled: [{name: NodeUnschedulable}]}, "
        "multiPoint: {disabled: [{name: NodeUnschedulable}, {name: TaintToleration}]}}\n"
    )
    answer = answered("whatif", "-f", "dump.yaml", "--config", "other.yaml")
    assert answer["placed"] == [{"pod": "shop/web", "before": "", "after": "b"}]


def test_whatif_lists_moved_pods_by_group() -> None:
    text = run("whatif", "-f", "dump.yaml", "--drain", "a,b").stdout
    assert text.startswith("1 pod is gone and not replaced.\nDrained in this order nothing waits")
    assert "GROUP" in text


def test_a_plan_without_changes_is_reported() -> None:
    assert run("whatif", "-f", "dump.yaml").exit_code == 2


def test_user_plugins_take_part_in_decisions() -> None:
    Path("mine.py").write_text(
        "from kubesched.framework import Plugin, Status\n\n\n"
        "class Mine(Plugin):\n"
        '    name = "Mine"\n\n'
        "    def filter(self, state, pod, node):\n"
        '        return Status.unresolvable("not on a Sunday")\n'
    )
    Path("mine.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- plugins: {multiPoint: {enabled: [{name: Mine}]}}\n"
    )
    run("capture", "-f", "dump.yaml", "-o", "c")
    asked = ("-f", "pod.yaml", "--capture", "c", "--config", "mine.yaml", "--plugin", "mine.py")
    assert answered("explain", "pod", *asked)["summary"].startswith("not on a Sunday")
    assert answered("fit", *asked)["fits"] == 0


@pytest.mark.parametrize("command", [["explain", "pod"], ["fit"], ["whatif"], ["capture"]])
def test_help_has_an_example(command: list[str]) -> None:
    assert "Example: kubesched" in run(*command, "--help").stdout


@pytest.mark.parametrize("files", [("pod.yaml", "dump.yaml"), ("dump.yaml", "pod.yaml")])
def test_fit_counts_the_pod_that_is_not_of_the_dump(files: tuple[str, str]) -> None:
    arguments = [part for file in files for part in ("-f", file)]
    assert run("fit", *arguments).output.startswith("default/small: 3 copies fit")
    named = run("fit", "--pod", "shop/web", *arguments).output
    assert named.startswith("shop/web: 0 copies fit")


def test_dump_command_prints_a_command_of_the_shell() -> None:
    assert run("dump-command", "--file", "x y.yaml").output.rstrip().endswith("> 'x y.yaml'")
    facts = json.loads(run("dump-command", "-o", "json").output)
    assert facts["file"] == "dump.yaml"
    assert facts["command"].startswith("for kind in namespaces ")


WORKLOAD = """\
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: api, namespace: shop, uid: d}
  spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
    spec: {containers: [{name: c, resources: {requests: {cpu: "6"}}}]}}}
- apiVersion: apps/v1
  kind: ReplicaSet
  metadata: {name: api-1, namespace: shop, uid: r,
    ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: api, uid: d, controller: true}]}
  spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
    spec: {containers: [{name: c, resources: {requests: {cpu: "6"}}}]}}}
"""
OWNED = """\
---
apiVersion: v1
kind: Pod
metadata: {name: api-1-NUMBER, namespace: shop, uid: p-NUMBER, labels: {a: b},
  creationTimestamp: "2026-01-01T00:00:0NUMBERZ",
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: api-1, uid: r, controller: true}]}
spec:
  containers: [{name: c, resources: {requests: {cpu: "6"}}}]
  volumes: [{name: kube-api-access-NUMBER, emptyDir: {}}]
"""


def test_all_pending_pods_are_grouped_by_cause(folder: Path) -> None:
    pods = "".join(OWNED.replace("NUMBER", str(each)) for each in range(2))
    (folder / "more.yaml").write_text(WORKLOAD + pods)
    done = run("explain", "pods", "-f", "dump.yaml", "-f", "more.yaml", "-f", "pod.yaml")
    lines = done.stdout.splitlines()
    assert lines[0] == "4 of 5 pods are pending, 2 causes:"
    assert lines[2].startswith("3 pods: Insufficient cpu: asks 6")
    assert "  shop/api-1-0  1 s  ReplicaSet/api-1" in lines
    assert "1 pod: They fit, one by one." in done.stdout
    answer = answered("explain", "pods", "-n", "shop", "-f", "dump.yaml", "-f", "more.yaml")
    (cause,) = answer["causes"]
    assert [each["pod"] for each in cause["pods"]] == ["shop/api-1-0", "shop/api-1-1", "shop/web"]
    assert cause["suggestions"][0]["change"].startswith("request cpu <= 3")


@pytest.mark.parametrize(
    "target",
    [("deployment/api", "-n", "shop"), ("deploy", "api", "-n", "shop"), ("rs/shop/api-1",)],
)
def test_a_workload_is_named_as_for_kubectl(folder: Path, target: tuple[str, ...]) -> None:
    pods = "".join(OWNED.replace("NUMBER", str(each)) for each in range(2))
    (folder / "more.yaml").write_text(WORKLOAD + pods)
    done = run("explain", *target, "-f", "dump.yaml", "-f", "more.yaml")
    assert "shop/api: 2 of 2 pods are pending" in done.stdout.replace("api-1:", "api:")
    assert "its events say why it has no more" in done.stdout
    set_resources = "$ kubectl set resources deployment api -n shop -c c --requests=cpu=3"
    assert set_resources in done.stdout


def test_the_namespace_of_a_pod_may_be_an_option() -> None:
    files = ("-f", "dump.yaml", "-f", "pod.yaml")
    named = answered("explain", "pod", "shop/web", *files)
    assert answered("explain", "pod", "web", "-n", "shop", *files) == named
    refused = CliRunner().invoke(cli, ["explain", "pod", "shop/web", "-n", "ops", *files])
    assert refused.exit_code == 2
    assert "excludes the namespace in 'shop/web'" in refused.output


def test_a_workload_without_pods_is_explained_by_its_template(folder: Path) -> None:
    (folder / "more.yaml").write_text(WORKLOAD)
    done = run("explain", "deployment/api", "-n", "shop", "-f", "dump.yaml", "-f", "more.yaml")
    assert done.stdout.startswith("Deployment shop/api: none of its 3 pods exists.")
    assert "Insufficient cpu: asks 6" in done.stdout


def test_a_workload_that_does_not_exist(folder: Path) -> None:
    (folder / "more.yaml").write_text(WORKLOAD)
    with pytest.raises(ExplainError, match="no Deployment default/api among 1") as raised:
        run("explain", "deployment/api", "-f", "dump.yaml", "-f", "more.yaml")
    assert raised.value.__notes__ == ["did you mean shop/api?"]


def test_a_node_that_would_do_is_named() -> None:
    answer = answered("explain", "pod", "shop/web", "-f", "dump.yaml", "-f", "pod.yaml")
    assert "add a node like b with 6 cpu" not in answer["advice"]  # b has 8
    pod = POD.replace('cpu: "1"', 'cpu: "64"')
    Path("huge.yaml").write_text(pod)
    huge = answered("explain", "pod", "-f", "huge.yaml", "-f", "dump.yaml")
    assert "add a node like b with 64 cpu" in huge["advice"]
    Path("huge.yaml").write_text(POD.replace('cpu: "1"', 'example.com/fpga: "1"'))
    fpga = answered("explain", "pod", "-f", "huge.yaml", "-f", "dump.yaml")
    assert fpga["advice"] == "To fix it: add a node like b with 1 example.com/fpga."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("explain", "web"), "name a pod as `kubesched explain pod web`"),
        (("explain", "svc/web"), "'svc' is no kind to explain: give pod, podgroup or a workload"),
        (("fit", "-n", "shop", "--pod", "shop/web", "-f", "dump.yaml"), "-n shop excludes"),
    ],
)
def test_what_is_to_be_explained_is_named_wrongly(arguments: tuple[str, ...], says: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert says in done.output


def test_a_pod_with_a_similar_name_is_suggested() -> None:
    with pytest.raises(ExplainError, match="no pod shop/wbe among 2") as raised:
        run("explain", "pod", "shop/wbe", "-f", "dump.yaml")
    assert raised.value.__notes__ == ["did you mean shop/web?"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "odd.yaml: is empty"),
        ("NAME READY\nweb 1/1\n", "odd.yaml:1: not an object but a table or another text; objects"),
        ("- 1\n", "odd.yaml:1: not an object but no mapping; objects come from manifests"),
    ],
)
def test_a_file_that_is_no_dump(folder: Path, text: str, says: str) -> None:
    (folder / "odd.yaml").write_text(text)
    with pytest.raises(ExplainError) as raised:
        run("explain", "pods", "-f", "dump.yaml", "-f", "odd.yaml")
    assert str(raised.value).startswith(says)


def test_fit_and_whatif_take_a_namespace(folder: Path) -> None:
    fits = answered("fit", "-n", "shop", "--pod", "db", "-f", "dump.yaml")
    assert fits["pods"] == ["shop/db"]
    # A server requires images, dumps need none.
    (folder / "more.yaml").write_text(WORKLOAD.replace("{name: c,", "{name: c, image: c,"))
    files = ("-f", "dump.yaml", "-f", "more.yaml")
    done = run("whatif", "-n", "shop", "--scale", "deploy/api=1", *files)
    assert done.exit_code == 0, done.output
    with pytest.raises(ExplainError, match="no Deployment default/api") as raised:
        run("whatif", "--scale", "deploy/api=1", *files)
    assert "did you mean shop/api?" in raised.value.__notes__[0]
