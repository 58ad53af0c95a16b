"""Many runs: configurations × seeds, over processes or a Dask cluster, kept as they finish.

Every finished run is written to a file of its own, so an interrupted or killed sweep goes on where
it was. A file counts only if it was made from the same scenario by the same version.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
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
    """One run to make."""

    configuration: str
    seed: int


class InterruptedSweepError(KubeschedError):
    """Somebody pressed Ctrl-C; `finished` is what there is."""

    def __init__(self, finished: list[RunResult], planned: int) -> None:
        super().__init__(f"interrupted: {len(finished)} of {planned} runs are finished")
        self.finished = finished


class _Kept(msgspec.Struct):
    version: str
    result: RunResult


class RunFiles:
    """Finished runs in a folder."""

    def __init__(self, folder: Path, scenario: Scenario) -> None:
        self._folder, self._hash = folder, scenario.hash

    def load(self, task: Task) -> RunResult | None:
        """A run that was finished before, if it was this one."""
        try:
            kept = msgspec.json.decode(self._path(task).read_bytes(), type=_Kept)
        except (OSError, msgspec.MsgspecError):
            return None
        result = kept.result
        is_same = kept.version == kubesched.__version__ and result.scenario_hash == self._hash
        return result if is_same and Task(result.configuration, result.seed) == task else None

    def save(self, result: RunResult) -> None:
        """Keep a run; the file is whole or not there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(Task(result.configuration, result.seed))
        partial = path.with_name(f"{path.name}.{os.getpid()}.part")
        partial.write_bytes(msgspec.json.encode(_Kept(kubesched.__version__, result)))
        partial.replace(path)

    def forget(self, tasks: Iterable[Task]) -> None:
        """Drop what is kept of these runs."""
        for task in tasks:
            self._path(task).unlink(missing_ok=True)

    def _path(self, task: Task) -> Path:
        name = re.sub(r"[^A-Za-z0-9._-]", "_", task.configuration)
        return self._folder / f"{name}-{task.seed}.json"


def tasks_of(scenario: Scenario) -> list[Task]:
    return [Task(each.name, seed) for each in scenario.configurations for seed in scenario.seeds]


def run_task(scenario: Scenario, task: Task) -> RunResult:
    """Make one run; it depends on nothing but its arguments."""
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
        InterruptedSweepError: by Ctrl-C; carries the runs that were finished.
        KubeschedError: a run failed.
    """
    tasks = tasks_of(scenario)
    finished: dict[Task, RunResult] = {}
    for task in tasks if files is not None else ():
        assert files is not None
        if (kept := files.load(task)) is not None:
            finished[task] = kept
    todo = [task for task in tasks if task not in finished]
    try:
        if progress is not None:
            progress(len(finished), len(tasks))
        # Closed at once, wherever an interrupt comes: a pool that is left goes on to its end.
        with contextlib.closing(_made(scenario, todo, processes, dask)) as made:
            for result in made:
                finished[Task(result.configuration, result.seed)] = result
                if files is not None:
                    files.save(result)
                if progress is not None:
                    progress(len(finished), len(tasks))
    except KeyboardInterrupt as interrupt:
        kept_runs = [finished[task] for task in tasks if task in finished]
        raise InterruptedSweepError(kept_runs, len(tasks)) from interrupt
    return [finished[task] for task in tasks]


def verify_repeats(scenario: Scenario) -> tuple[str, str]:
    """Digests of the first run, made twice in processes that differ in all that must not matter.

    The order in which sets are walked is another in each, and so is the time.
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


def _made(
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
        for process in workers:  # which shutdown would let finish what they do
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
    """Wait for the parent to end. A pool's workers would outlive one that is killed."""
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
