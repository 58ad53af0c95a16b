"""All bounds of kubesched: the bounded quantity, the limit, and the behaviour beyond it.

`docs/reliability.md` contains this table. After a change, print it with `python -m
kubesched.cli.bounds` and update the document; a test compares them. A row takes its figure from the
constant that the code uses.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kubesched.api import node_selector, sharing, sized_caches
from kubesched.cluster.apiserver.http.api_limits import ApiLimits
from kubesched.cluster.apiserver.rules.custom import rule_costs, schema_validation
from kubesched.cluster.apiserver.rules.errors import value_limit
from kubesched.cluster.apiserver.rules.patching import patches
from kubesched.cluster.apiserver.store import access_rules, log_budget
from kubesched.cluster.controllers import (
    device_driver,
    job_indexes,
    pod_creation_limit,
    terminated_pods,
)
from kubesched.dashboard import page_queries
from kubesched.explain.recordings import segment_files
from kubesched.explain.whatif import plan
from kubesched.foundation.cel import device
from kubesched.foundation.cel.language import operations, parser
from kubesched.foundation.client import api_failures, event_recorder, http1, watch_stream
from kubesched.foundation.http.http_server import PART_BYTES
from kubesched.foundation.util import bounded_file, forked, log_output, yaml_limits
from kubesched.framework import node_info, panels, pod_limits
from kubesched.scheduler.backend import cache, image_table
from kubesched.scheduler.cycles import failure, scheduling_cycle
from kubesched.scheduler.plugins.dynamic_resources import device_requests, device_search_steps
from kubesched.scheduler.runtime import answer_cache, binding_points
from kubesched.scheduler.server.serving.secure_server import HTTP_LIMITS
from kubesched.sim import history

__all__ = ["BOUNDS", "Bound", "bounds_table"]


class Bound(NamedTuple):
    """One bound."""

    # The object, request or part of the program that is bounded.
    of: str
    # The figure and its unit.
    limit: str
    # What happens beyond it.
    beyond: str


def _size(count: int) -> str:
    """Format a number of bytes."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):g} {unit}"
    return f"{count} B"


_UNSCHEDULABLE: Final = "unschedulable, with a condition that states the limit"
_ON_PODS: Final = (
    Bound("pod: affinity terms", f"{pod_limits.MOST_AFFINITY_TERMS}", _UNSCHEDULABLE),
    Bound("pod: spread constraints", f"{pod_limits.MOST_SPREAD_CONSTRAINTS}", _UNSCHEDULABLE),
    Bound(
        "pod: selector expressions and labels in affinity terms, and in spread constraints",
        f"{pod_limits.MOST_SELECTOR_EXPRESSIONS} each",
        _UNSCHEDULABLE,
    ),
    Bound("pod: requirements of nodes", f"{pod_limits.MOST_NODE_REQUIREMENTS:,}", _UNSCHEDULABLE),
    Bound(
        "volume, claim or slice: requirements of nodes",
        f"{node_selector.MOST_REQUIREMENTS:,}",
        "no node matches; error for a pod with such a claim",
    ),
    Bound(
        "selector of a budget, or of a claim for volumes",
        f"{pod_limits.MOST_SELECTED_LABELS:,} labels and expressions",
        "the server alone applies the budget; error for this pod",
    ),
    Bound("pod: tolerations", f"{pod_limits.MOST_TOLERATIONS}", _UNSCHEDULABLE),
    Bound("pod: resources", f"{pod_limits.MOST_RESOURCES}", _UNSCHEDULABLE),
    Bound(
        "claim: devices",
        f"{device_requests.MAX_RESULTS}",
        "error for this pod, as in the reference",
    ),
    Bound(
        "device search for one node",
        f"{device_search_steps.MOST_STEPS:,} steps with a guide (decision 0041)",
        "error for this pod, cached while devices and claims are the same",
    ),
    Bound(
        "device searches in a turn of the event loop",
        f"{device_search_steps.STEPS_PER_TURN:,} steps",
        "the attempt continues in the next turn",
    ),
    Bound(
        "turns of an attempt",
        f"{scheduling_cycle.MOST_TURNS}",
        "error for this pod; the next attempt continues",
    ),
    Bound(
        "CEL expression",
        f"{parser.MAX_LENGTH:,} characters, {parser.MAX_DEPTH} levels, a cost of "
        f"{device.DEVICE_COST_LIMIT:,} for a device",
        "error for this pod; the server refuses the object",
    ),
    Bound(
        "text or list that a CEL expression computes",
        f"{operations.MAX_SIZE:,} characters or elements",
        "error for this pod; the server refuses the object",
    ),
    Bound(
        "wait on Permit",
        f"{binding_points.MAX_PERMIT_TIMEOUT_NS // 60_000_000_000} min",
        "the pod is rejected, as in the reference",
    ),
)
_IN_THE_SCHEDULER: Final = (
    Bound(
        "cached answers of a profile",
        f"{answer_cache.MOST_ENTRIES:,} kinds of pods, {_size(answer_cache.MOST_BYTES)}",
        "the least recently used are evicted",
    ),
    Bound(
        "selectors, label sets and texts in caches",
        f"{sized_caches.MOST_WEIGHT:,} characters, {sized_caches.LONGEST_TEXT} for a single text",
        "stored no longer than the object or the attempt",
    ),
    Bound(
        "models for sharing parts of objects",
        f"{_size(sharing.LARGEST_MODEL)} of JSON each, {_size(2 * sharing.GENERATION_WEIGHT)} "
        "of a kind",
        "not shared; the least recently used are evicted",
    ),
    Bound(
        "node: resources, names of images",
        f"{node_info.MOST_RESOURCES:,}, {image_table.MOST_NAMES:,}",
        "the others are ignored",
    ),
    Bound(
        "topology of a StorageClass or a CSIStorageCapacity",
        f"{node_selector.MOST_REQUIREMENTS:,} expressions",
        "no node is allowed; the capacity is ignored",
    ),
    Bound(
        "changes that the cache has logged",
        f"{cache.LONGEST_LOG:,}",
        "readers that are further behind read all nodes",
    ),
    Bound("events in memory", f"{event_recorder.QUEUE_CAPACITY:,}", "dropped, and counted"),
    Bound("condition of a pod", _size(failure.LONGEST_MESSAGE), "truncated, with three dots"),
    Bound("error message", _size(api_failures.LONGEST_MESSAGE), "truncated, with three dots"),
    Bound("field of the log", _size(log_output.LONGEST_TEXT), "truncated, with three dots"),
    Bound("response of the API server", _size(http1.LARGEST_BODY), "an error; reads are retried"),
    Bound("event of a watch", _size(watch_stream.LONGEST_LINE), "the watch ends, and is repeated"),
    Bound(
        "request to the scheduler",
        f"{_size(HTTP_LIMITS.body_bytes)} of body in {HTTP_LIMITS.body_seconds:g} s, "
        f"{HTTP_LIMITS.headers} headers of {_size(HTTP_LIMITS.line_bytes)}, "
        f"{HTTP_LIMITS.connections:,} connections",
        "413, 408, 431, closed",
    ),
)
_API: Final = ApiLimits()
_OF_THE_EMBEDDED_SERVER: Final = (
    Bound(
        "request to the embedded server",
        f"{_size(_API.body_bytes)} of body in {_API.body_seconds:g} s, {_API.header_seconds:g} s "
        f"to begin, TLS included; {_API.connections:,} connections",
        "413, 408, closed",
    ),
    Bound(
        "response that a client does not read",
        f"{_size(PART_BYTES)} written at a time, {_API.stalled_seconds:g} s without progress",
        "the client is dropped",
    ),
    Bound(
        "large responses that all clients have not read",
        _size(_API.unsent_bytes),
        f"clients that took nothing for {_API.patience_seconds:g} s are dropped; then 429",
    ),
    Bound("open watches", f"{_API.watches:,}", "429"),
    Bound(
        "ClusterRole that aggregates others",
        f"{access_rules.MOST_COMPARISONS:,} comparisons of a role with a selector",
        "no rules, and a warning in the log",
    ),
    Bound(
        "role or binding of a user without the verb escalate or bind",
        f"{access_rules.MOST_GRANT_CHECKS:,} comparisons of a permission with a rule of the user",
        "403",
    ),
)
_IN_THE_EMBEDDED_CLUSTER: Final = (
    Bound(
        "object",
        f"{value_limit.MOST_VALUES:,} values, counted before they are read (decision 0028)",
        "413",
    ),
    Bound("object after a patch", f"{_size(value_limit.LARGEST_OBJECT)} as JSON", "413"),
    Bound(
        "YAML file", f"{yaml_limits.MOST_REPEATED:,} values by aliases", "400; one line of error"
    ),
    Bound(
        "object of a custom resource",
        f"{schema_validation.MOST_STEPS:,} steps of checking by its schema",
        "413",
    ),
    Bound(
        "rule of a CustomResourceDefinition",
        f"an estimated cost of {rule_costs.LARGEST_COST:,} for all values that it may check",
        "422, as in the reference",
    ),
    Bound(
        "JSON patch",
        f"{patches.MOST_OPERATIONS:,} operations, {_size(patches.MOST_COPIED_BYTES)} copied, "
        f"{patches.MOST_COPIED_ITEMS:,} items of lists and maps copied on the way",
        "400, 422",
    ),
    Bound(
        "changes that watches read",
        f"{_size(log_budget.MOST_BYTES)} of a kind, {_size(log_budget.MOST_BYTES_IN_ALL)} in all; "
        f"one change in {log_budget.MEASURED_EVERY}, chosen at random, is measured",
        "410, list again",
    ),
    Bound(
        "Deployment, Job, StatefulSet …",
        f"{pod_creation_limit.MOST_AT_ONCE} pods at a time, "
        f"{pod_creation_limit.MOST_WAITING:,} that wait for a node; "
        f"{job_indexes.MOST_INDEXES:,} indexes",
        "later, with an event; left out",
    ),
    Bound("devices of a node", f"{device_driver.MOST_DEVICES:,}", "none, with an event"),
    Bound(
        "completed pods",
        f"{terminated_pods.TERMINATED_POD_THRESHOLD:,}",
        "the oldest are deleted",
    ),
)
_ON_FILES: Final = (
    Bound(
        "file that a command reads",
        f"{_size(bounded_file.MOST_BYTES)}; settings {_size(bounded_file.MOST_SETTINGS_BYTES)}",
        "one line of error, before memory is exhausted",
    ),
    Bound(
        "report of a simulation",
        f"{_size(bounded_file.MOST_BYTES)} when unpacked, {history.MOST_CHANGES:,} changes",
        "one line of error",
    ),
    Bound("frame of a recording", _size(segment_files.MOST_FRAME), "the recording ends there"),
    Bound(
        "what-if plan",
        f"{plan.MOST_NEW_NODES:,} new nodes, {plan.MOST_REPLICAS:,} replicas",
        "one line of error; 400 on the page",
    ),
    Bound(
        "explanation or what-if of the page",
        f"{page_queries.LONGEST_S:g} s, {_size(forked.MOST_BYTES)} of memory, "
        f"{page_queries.MOST_CHILDREN} at a time",
        "400 or 500, or it waits",
    ),
    Bound(
        "panel of a plugin on the page",
        f"{panels.MOST_PANEL_ROWS} rows",
        "the panel states the number of omitted rows",
    ),
)

# The table, in the order of the document.
BOUNDS: Final = (
    *_ON_PODS,
    *_IN_THE_SCHEDULER,
    *_OF_THE_EMBEDDED_SERVER,
    *_IN_THE_EMBEDDED_CLUSTER,
    *_ON_FILES,
)


def bounds_table() -> str:
    """Return the table as Markdown."""
    lines = ["| bounded | limit | beyond it |", "|---|---|---|"]
    lines += [f"| {each.of} | {each.limit} | {each.beyond} |" for each in BOUNDS]
    return "\n".join(lines)


if __name__ == "__main__":
    print(bounds_table())
