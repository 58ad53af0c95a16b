"""Rendering of the chart with the real `helm`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "chart"
HELM = Path(sys.executable).parent / "helm"

SETS: dict[str, dict[str, Any]] = {
    "second scheduler": {},
    "replacement": {
        "mode": "replacement",
        "replicas": 3,
        "logFormat": "json",
        "featureGates": {"GenericWorkload": True, "GangScheduling": True},
        "profiles": [
            {"schedulerName": "default-scheduler"},
            {
                "schedulerName": "packed",
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "scoringStrategy": {
                                "type": "MostAllocated",
                                "resources": [{"name": "cpu", "weight": 1}],
                            }
                        },
                    }
                ],
            },
        ],
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
    },
    "shadow": {"mode": "shadow", "page": True},
    "own plugins and monitoring": {
        "plugins": {
            "files": {"spare_nodes.py": (ROOT / "examples" / "spare_nodes.py").read_text()}
        },
        "profiles": [
            {
                "schedulerName": "kubesched",
                "plugins": {"multiPoint": {"enabled": [{"name": "SpareNodes"}]}},
                "pluginConfig": [
                    {"name": "SpareNodes", "args": {"labelKey": "example.com/reserve"}}
                ],
            }
        ],
        "podMonitor": {"create": True},
        "prometheusRule": {"create": True, "labels": {"release": "monitoring"}},
        "dashboards": {"create": True},
    },
}


def helm(*arguments: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(HELM), *arguments, "--values", "-"],
        input=yaml.safe_dump(values),
        capture_output=True,
        text=True,
        check=False,
    )


def render(values: dict[str, Any], release: str = "kubesched") -> list[dict[str, Any]]:
    """Return the objects of a release in the namespace kube-system."""
    done = helm("template", release, str(CHART), "--namespace=kube-system", values=values)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def one(objects: list[dict[str, Any]], kind: str, name: str = "kubesched") -> dict[str, Any]:
    (found,) = [
        each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return found
