"""Search for the best configurations for a scenario.

A tuning file names a scenario, the parameters that may change, and the objectives:

    scenario: week.yaml
    trials: 60
    parameters:
      profiles[0].plugins.score.enabled[NodeResourcesFit].weight: {integer: [1, 10]}
      profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type:
        choice: [LeastAllocated, MostAllocated]
    objectives:
    - {minimize: mean time to bind}
    - {minimize: cost}

A part of a path in brackets is an index into a list, or the name of an entry, which is added if it
is missing. Optuna searches with a fixed seed, so that a search is repeatable.
"""

from __future__ import annotations

import copy
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kubesched.errors import ConfigError, KubeschedError
from kubesched.foundation.util.bounded_file import read_bounded_text
from kubesched.foundation.util.yaml_documents import YamlProblem, read_documents
from kubesched.scheduler.config.load import configuration_from_builtins
from kubesched.sim.compare import TIMES, measures_of
from kubesched.sim.reading import Members
from kubesched.sim.results import RunResult
from kubesched.sim.scenario import Configuration, Scenario
from kubesched.sim.scenario_file import load_scenario
from kubesched.sim.sweep import sweep
from kubesched.sim.values import ScenarioError

__all__ = [
    "Objective",
    "Parameter",
    "Tuning",
    "TuningTrial",
    "best_trial",
    "document_of",
    "load_tuning",
    "tune",
]

_STEP: Final = re.compile(r"([^.\[\]]+)|\[([^\]]+)\]")
_HEAD: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


class Parameter(msgspec.Struct, frozen=True):
    """A path in the configuration, and its possible values."""

    path: str
    kind: str  # integer, number or choice
    values: tuple[Any, ...]


class Objective(msgspec.Struct, frozen=True):
    """A measure to minimize or maximize."""

    measure: str
    minimize: bool


class Tuning(msgspec.Struct, frozen=True):
    """The content of a tuning file."""

    scenario: Scenario
    base: dict[str, Any]
    parameters: tuple[Parameter, ...]
    objectives: tuple[Objective, ...]
    trials: int
    seed: int


class TuningTrial(msgspec.Struct, frozen=True):
    """One setting of the parameters, and its measures over the seeds of the scenario."""

    number: int
    parameters: dict[str, Any]
    values: dict[str, float]  # by measure
    is_on_front: bool = False


def load_tuning(path: str | Path, *, run_plugins: bool = True) -> Tuning:
    """Read a tuning file and its scenario; `run_plugins` as in `load_scenario`.

    Raises:
        ConfigError: with file, line and the error.
    """
    file = Path(path)
    try:
        parts = list(read_documents(read_bounded_text(file, "utf-8-sig")))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}:1: not UTF-8 text: {error.reason}") from error
    if len(parts) != 1 or isinstance(parts[0], YamlProblem):
        problem = parts[0] if parts and isinstance(parts[0], YamlProblem) else None
        line, text = (problem.line, problem.text) if problem else (1, "must be one document")
        raise ConfigError(f"{file}:{line}: {text}")
    document = parts[0]
    try:
        return _tuning(Members(document.value, ""), file.parent, run_plugins)
    except ScenarioError as error:
        raise ConfigError(f"{file}:{document.line_of(error.path)}: {error}") from error


def _tuning(top: Members, folder: Path, run_plugins: bool) -> Tuning:
    scenario = load_scenario(folder / top.take("scenario", str), run_plugins=run_plugins)
    base = {**_HEAD, **top.take("config", dict, {"profiles": [{}]})}
    parameters = tuple(_parameter(name, value) for name, value in _mapping(top, "parameters"))
    objectives = tuple(_objective(each) for each in top.each("objectives"))
    tuning = Tuning(
        scenario,
        base,
        parameters,
        objectives,
        top.take("trials", int, 30),
        top.take("seed", int, 0),
    )
    top.done()
    if not objectives:
        raise ScenarioError("objectives", "needs at least one")
    return tuning


def _mapping(top: Members, name: str) -> list[tuple[str, Any]]:
    found = list(top.take(name, dict).items())
    if not found:
        raise ScenarioError(name, "needs at least one")
    return found


def _parameter(path: str, value: Any) -> Parameter:
    at = f"parameters[{path}]"
    if not isinstance(value, dict) or len(value) != 1:
        raise ScenarioError(at, "needs one of integer, number or choice")
    kind, given = next(iter(value.items()))
    if kind not in ("integer", "number", "choice"):
        raise ScenarioError(at, f"no kind {kind!r}; known are integer, number and choice")
    if not isinstance(given, list) or not given or (kind != "choice" and len(given) != 2):
        raise ScenarioError(at, "needs a list: the values, or the least and the largest")
    return Parameter(path, kind, tuple(given))


def _objective(members: Members) -> Objective:
    kinds = [kind for kind in ("minimize", "maximize") if members.has(kind)]
    if len(kinds) != 1:
        raise ScenarioError(members.path, "needs minimize or maximize")
    objective = Objective(members.take(kinds[0], str), kinds[0] == "minimize")
    members.done()
    return objective


def tune(
    tuning: Tuning,
    *,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[TuningTrial]:
    """Search, and return all trials; those on the Pareto front are marked.

    A trial is on the front if no other is at least as good in every objective and better in one.

    Raises:
        KubeschedError: the package optuna is missing, or an objective is not a known measure.
    """
    optuna = _optuna()
    study = optuna.create_study(
        directions=["minimize" if each.minimize else "maximize" for each in tuning.objectives],
        sampler=optuna.samplers.TPESampler(seed=tuning.seed),
    )
    trials: list[TuningTrial] = []
    for number in range(tuning.trials):
        asked = study.ask()
        chosen = {each.path: _suggest(asked, each) for each in tuning.parameters}
        values = _measured(tuning, chosen, processes)
        study.tell(asked, [values[each.measure] for each in tuning.objectives])
        trials.append(TuningTrial(number, chosen, values))
        if progress is not None:
            progress(number + 1, tuning.trials)
    return _with_front(trials, tuning.objectives)


def best_trial(tuning: Tuning, trials: Sequence[TuningTrial]) -> TuningTrial:
    """Return the trial on the front that is best in the first objective."""
    first = tuning.objectives[0]
    sign = 1 if first.minimize else -1
    front = [each for each in trials if each.is_on_front]
    return min(front, key=lambda each: each.values[first.measure] * sign)


def document_of(tuning: Tuning, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a trial, in the form of a file."""
    document = copy.deepcopy(tuning.base)
    for path, value in parameters.items():
        set_value(document, path, value)
    return document


def _optuna() -> Any:
    try:
        optuna: Any = importlib.import_module("optuna")
    except ImportError as error:
        missing = KubeschedError("tuning needs the package optuna")
        missing.add_note("pip install 'kubesched[tune]'")
        raise missing from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _suggest(asked: Any, parameter: Parameter) -> Any:
    match parameter.kind:
        case "integer":
            return asked.suggest_int(parameter.path, *parameter.values)
        case "number":
            return asked.suggest_float(parameter.path, *parameter.values)
    # Optuna warns about choices that are mappings, so it chooses a place.
    place = asked.suggest_categorical(parameter.path, list(range(len(parameter.values))))
    return parameter.values[place]


def _measured(tuning: Tuning, chosen: dict[str, Any], processes: int) -> dict[str, float]:
    document = document_of(tuning, chosen)
    try:
        configuration = configuration_from_builtins(document)
    except KubeschedError as error:
        raise ConfigError(f"a trial's configuration cannot be used: {error}") from error
    tried = Configuration(name="trial", configuration=configuration)
    scenario = msgspec.structs.replace(tuning.scenario, configurations=(tried,))
    results = sweep(scenario, processes=processes)
    return {each.measure: _mean(results, each.measure) for each in tuning.objectives}


def _mean(results: list[RunResult], measure: str) -> float:
    # Without any pod a time has the worst possible value, not the best.
    found = [{**dict.fromkeys(TIMES, each.virtual_s), **measures_of(each)} for each in results]
    if measure not in found[0]:
        known = ", ".join(sorted(found[0]))
        raise ConfigError(f"no measure {measure!r}; there are {known}")
    return sum(each.get(measure, 0.0) for each in found) / len(found)


def _with_front(trials: list[TuningTrial], objectives: tuple[Objective, ...]) -> list[TuningTrial]:
    def costs(trial: TuningTrial) -> list[float]:
        return [trial.values[each.measure] * (1 if each.minimize else -1) for each in objectives]

    marked = []
    for trial in trials:
        mine = costs(trial)
        is_beaten = any(
            other is not trial
            and all(theirs <= own for theirs, own in zip(costs(other), mine, strict=True))
            and costs(other) != mine
            for other in trials
        )
        marked.append(msgspec.structs.replace(trial, is_on_front=not is_beaten))
    return marked


def set_value(document: Any, path: str, value: Any) -> None:
    """Set the value at a path of a configuration; missing entries on the way are created."""
    steps = [plain or bracketed for plain, bracketed in _STEP.findall(path)]
    where = document
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(where, list):
            where = _entry(where, step)
            continue
        if following is None:
            where[step] = value
            return
        is_list = f"{step}[" in path and path[path.index(f"{step}[") + len(step)] == "["
        where = where.setdefault(step, [] if is_list else {})


def _entry(entries: list[Any], step: str) -> Any:
    """Return the entry with an index or a name; it is added if it is missing."""
    if step.isdecimal():
        while len(entries) <= int(step):
            entries.append({})
        return entries[int(step)]
    for entry in entries:
        if entry.get("name") == step:
            return entry
    entries.append({"name": step})
    return entries[-1]
