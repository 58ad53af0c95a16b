"""Makes the decisions of a recording again, and compares them with the recorded ones.

Random choices are part of a recording: if several nodes have the highest score, the recorded node
is the one that was drawn. A replay checks that it is one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kubesched.api.time import format_time
from kubesched.explain.clusters.cluster_model import SearchOutcome
from kubesched.explain.recordings.recorded_objects import NO_NODE_FITS
from kubesched.explain.recordings.recording_player import (
    RecordedDecision,
    RecordingPlayer,
    read_recording,
)
from kubesched.explain.shadow.decision_comparison import DecisionComparison, scoring_all_nodes
from kubesched.explain.shadow.shadow_entries import AssumedState, ShadowEntry, ShadowReport
from kubesched.explain.shadow.shadow_ledger import ShadowLedger
from kubesched.scheduler.config.types import KubeSchedulerConfiguration

__all__ = ["DecisionDifference", "ReplayResult", "compare_recording", "replay_recording"]


class DecisionDifference(msgspec.Struct, frozen=True):
    """The first decision in which a replay differs."""

    at: str
    pod: str
    recorded: str
    replayed: str


class ReplayResult(msgspec.Struct, frozen=True):
    """The result of a replay. Without a difference all decisions are equal byte for byte."""

    decisions: int
    left_out: int  # decisions with extenders, for groups, or that ended with an error
    difference: DecisionDifference | None = None
    damages: tuple[str, ...] = ()  # messages about segments that end early


def replay_recording(
    folder: Path, on_decision: Callable[[int], object] = lambda _: None, **options: Any
) -> ReplayResult:
    """Replay the decisions until one differs. `options` are those of `RecordingPlayer`.

    Raises:
        RecordingError: the recording cannot be read.
        ConfigError: the recorded configuration needs plugins that are missing.
    """
    files = read_recording(folder)
    player = RecordingPlayer(files.header, **options)
    decisions = left_out = 0
    for record in files.records:
        found = player.apply(record)
        if not isinstance(found, RecordedDecision):
            continue
        if player.is_repeated:
            player.carry_out(found, player.model.search(found.pod))
            continue
        if not found.is_verdict:
            player.carry_out(found, None)
            left_out += 1
            continue
        outcome = player.model.search(found.pod)
        recorded, replayed = _bytes_of(found), _replayed_bytes(found, outcome)
        if recorded != replayed:
            difference = DecisionDifference(
                format_time(found.at_ns), found.key, recorded.decode(), replayed.decode()
            )
            return ReplayResult(decisions, left_out, difference, tuple(files.damages))
        player.carry_out(found, outcome)
        decisions += 1
        on_decision(decisions)
    return ReplayResult(decisions, left_out, None, tuple(files.damages))


def _bytes_of(decision: RecordedDecision) -> bytes:
    return msgspec.json.encode((decision.node, decision.evaluated, decision.message))


def _replayed_bytes(decision: RecordedDecision, outcome: SearchOutcome) -> bytes:
    result = outcome.result
    if result is None:
        # A replay preempts no pods, so the message of PostFilter is copied from the recording.
        parts = (outcome.message, decision.post_filter)
        return msgspec.json.encode(("", NO_NODE_FITS, " ".join(filter(None, parts))))
    node = result.node_name
    if decision.node and decision.node != node and _is_best(outcome, decision.node):
        node = decision.node
    return msgspec.json.encode((node, result.evaluated_nodes, ""))


def _is_best(outcome: SearchOutcome, node: str) -> bool:
    """Whether a node has the highest score."""
    result = outcome.result
    assert result is not None
    row, scores = result.feasible.table.row_of.get(node), result.scores
    if row is None or scores is None:
        return False
    places = np.flatnonzero(result.feasible.rows == row)
    return bool(len(places)) and scores.total[places[0]] == scores.total.max()


def compare_recording(
    folder: Path, configuration: KubeSchedulerConfiguration | None, **options: Any
) -> ShadowReport:
    """Report the decisions of another configuration, each made in the recorded state.

    Raises:
        RecordingError: the recording cannot be read.
        ConfigError: the configuration cannot be used.
    """
    files = read_recording(folder)
    recorded = RecordingPlayer(files.header, **options).configuration
    own = configuration or recorded
    player = RecordingPlayer(files.header, configuration=scoring_all_nodes(own), **options)
    ledger: ShadowLedger | None = None
    at_ns = 0
    for record in files.records:
        at_ns = record[1]
        ledger = ledger or ShadowLedger(at_ns)
        found = player.apply(record)
        if isinstance(found, RecordedDecision) and player.is_repeated:
            player.carry_out(found, None)
        elif isinstance(found, RecordedDecision):
            _compare(player, DecisionComparison(player.model, recorded), ledger, found)
    return (ledger or ShadowLedger(at_ns)).report(at_ns)


def _compare(
    player: RecordingPlayer,
    comparison: DecisionComparison,
    ledger: ShadowLedger,
    found: RecordedDecision,
) -> None:
    pod = found.pod
    if not found.is_verdict:
        ledger.leave_out("the attempt used extenders, or ended in an error")
    elif pod.spec.scheduler_name not in player.model.frameworks:
        ledger.leave_out("the configuration has no profile for the pod")
    elif pod.spec.scheduling_group is not None:
        ledger.leave_out("pods of groups are decided together")
    else:
        own = comparison.compare(pod, found.node)
        ledger.add(
            ShadowEntry(
                at=format_time(found.at_ns),
                pod=found.key,
                profile=pod.spec.scheduler_name,
                verdict=own.verdict,
                state=AssumedState.RECORDED,
                node=found.node,
                own_node=own.own_node,
                summary=own.summary or found.message,
                plugin=own.plugin,
                points=own.points,
            )
        )
    player.carry_out(found, None)
