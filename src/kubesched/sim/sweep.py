"""Sweeps: the runs of all configurations and seeds, in processes or on a Dask cluster.

Every finished run is written to its own file, so that an interrupted or killed sweep can resume. A
file is used only if the same version has written it for the same scenario.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import kubesched
from kubesched.errors import KubeschedError
from kubesched.foundation.util.collector import settle_collector
from kubesched.sim.results import RunResult
from kubesched.sim.scenario import Scenario
from kubesched.sim.simulation import simulate

__all__ = [
    "InterruptedSweepError",
    "RunFiles",
    "Task",
    "run_task",
    "sweep",
    "tasks_of",
    "verify_repeats",
]


class Task(NamedTuple):
    """The configuration and the seed of one run."""

    configuration: str
    seed: int


class InterruptedSweepError(KubeschedError):
    """The user interrupted a sweep; `finished` has the results so far."""

    def __init__(self, finished: list[RunResult], planned: int) -> None:
        super().__init__(f"interrupted: {len(finished)} of {planned} runs are finished")
        self.finished = finished


class _StoredRun(msgspec.Struct):
    version: str
    result: RunResult


class RunFiles:
    """A folder with the results of finished runs."""

    def __init__(self, folder: Path, scenario: Scenario) -> None:
        self._folder, self._hash = folder, scenario.hash

    def load(self, task: Task) -> RunResult | None:
        """Return the stored result of a run, or None if there is none of the same version."""
        try:
            stored = msgspec.json.decode(self._path(task).read_bytes(), type=_StoredRun)
        except (OSError, msgspec.MsgspecError):
            return None
        result = stored.result
        is_same = stored.version == kubesched.__version__ and result.scenario_hash == self._hash
        return result if is_same and Task(result.configuration, result.seed) == task else None

    def save(self, result: RunResult) -> None:
        """Store a result. The file is replaced atomically."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(Task(result.configuration, result.seed))
        partial = path.with_name(f"{path.name}.{os.getpid()}.part")
        partial.write_bytes(msgspec.json.encode(_StoredRun(kubesched.__version__, result)))
        partial.replace(path)

    def delete(self, tasks: Iterable[Task]) -> None:
        """Delete the stored results of these runs."""
        for task in tasks:
            self._path(task).unlink(missing_ok=True)

    def _path(self, task: Task) -> Path:
        name = re.sub(r"[^A-Za-z0-9._-]", "_", task.configuration)
        return self._folder / f"{name}-{task.seed}.json"


def tasks_of(scenario: Scenario) -> list[Task]:
    return [Task(each.name, seed) for each in scenario.configurations for seed in scenario.seeds]


def run_task(scenario: Scenario, task: Task) -> RunResult:
    """Make one run. The result depends on the arguments alone."""
    result, _ = simulate(scenario, scenario.configuration(task.configuration), task.seed)
    return result


def sweep(
    scenario: Scenario,
    *,
    processes: int = 1,
    files: RunFiles | None = None,
    dask: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> list[RunResult]:
    """Make all runs of a scenario, in the order of configurations and seeds.

    Raises:
        InterruptedSweepError: after Ctrl-C, with the finished runs.
        KubeschedError: a run failed.
    """
    tasks = tasks_of(scenario)
    finished = _stored_runs(files, tasks)
    remaining = [task for task in tasks if task not in finished]
    latest: Task | None = None
    try:
        if progress is not None:
            progress(len(finished), len(tasks))
        # Close the generator on an interrupt: a pool that is not shut down runs to its end.
        with contextlib.closing(_results_of(scenario, remaining, processes, dask)) as results:
            for result in results:
                latest = Task(result.configuration, result.seed)
                if files is not None:
                    files.save(result)
                finished[latest] = result
                if progress is not None:
                    progress(len(finished), len(tasks))
    except KeyboardInterrupt as interrupt:
        # The interrupt may have come before or after the latest result was stored.
        finished |= _stored_runs(files, [] if latest is None else [latest])
        runs = [finished[task] for task in tasks if task in finished]
        raise InterruptedSweepError(runs, len(tasks)) from interrupt
    return [finished[task] for task in tasks]


def _stored_runs(files: RunFiles | None, tasks: Sequence[Task]) -> dict[Task, RunResult]:
    """Return the results of those tasks that an earlier sweep has stored."""
    if files is None:
        return {}
    loaded = ((task, files.load(task)) for task in tasks)
    return {task: result for task, result in loaded if result is not None}


def verify_repeats(scenario: Scenario) -> tuple[str, str]:
    """Return the digests of the first run, made in two processes with different hash seeds.

    The processes differ in the iteration order of sets and in time; neither may affect a run.
    """
    task = tasks_of(scenario)[0]
    digests = []
    before = os.environ.get("PYTHONHASHSEED")
    try:
        for hash_seed in ("1", "2"):
            os.environ["PYTHONHASHSEED"] = hash_seed
            digests += [each.digest for each in _in_processes(scenario, [task], 1)]
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before
    return digests[0], digests[1]


def _results_of(
    scenario: Scenario, tasks: list[Task], processes: int, dask: str
) -> Generator[RunResult, None, None]:
    if dask:
        return _on_dask(scenario, tasks, dask)
    if processes <= 1 or len(tasks) <= 1:
        return (run_task(scenario, task) for task in tasks)
    return _in_processes(scenario, tasks, min(processes, len(tasks)))


def _in_processes(
    scenario: Scenario, tasks: list[Task], processes: int
) -> Generator[RunResult, None, None]:
    # Spawned, not forked: a run must not depend on what its parent did before.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin_worker)
    try:
        futures = [pool.submit(run_task, scenario, task) for task in tasks]
        yield from _results(futures)
    finally:
        workers = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in workers:  # shutdown would wait for their current runs
            with contextlib.suppress(OSError):
                process.terminate()


def _results(futures: Iterable[Future[RunResult]]) -> Iterator[RunResult]:
    for future in as_completed(futures):
        yield future.result()


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    settle_collector()


def _end_with_parent() -> None:
    """End this worker when its parent ends. Workers would outlive a killed parent."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _on_dask(
    scenario: Scenario, tasks: list[Task], address: str
) -> Generator[RunResult, None, None]:
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        missing = KubeschedError("--dask needs the package distributed")
        missing.add_note("pip install 'kubesched[dask]'")
        raise missing from error
    try:
        client: Any = distributed.Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise KubeschedError(f"no Dask scheduler at {address}: {error}") from error
    with client:
        shared = client.scatter(scenario, broadcast=True)
        futures = [client.submit(run_task, shared, task, pure=False) for task in tasks]
        for future in distributed.as_completed(futures):
            yield future.result()
