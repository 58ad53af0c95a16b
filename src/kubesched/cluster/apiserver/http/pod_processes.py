"""`log`, `exec`, `attach` and `portforward` of pods: the requests, and the state of the container.

The output of a container comes from a `PodProcesses`, which stands in for the kubelet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from kubesched.api import ContainerState, ContainerStatus, Pod
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.apiserver.http.channel_forwarding import ChannelForwarding, forwarded_ports
from kubesched.cluster.apiserver.http.interactive_shell import (
    InteractiveShell,
    RunLine,
    is_interactive_shell,
)
from kubesched.cluster.apiserver.http.port_forwarding import PortForwarding
from kubesched.cluster.apiserver.http.remote_commands import (
    STDERR,
    STDOUT,
    Emit,
    Produce,
    ReadInput,
    SpdyCommand,
    WebSocketCommand,
    spdy_protocol,
)
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.foundation.http.http_messages import TEXT, Query, Request, Response
from kubesched.foundation.util.clock import SECOND, Clock

__all__ = [
    "CommandResult",
    "LogLine",
    "PodProcesses",
    "answer_attach",
    "answer_exec",
    "answer_log",
    "answer_port_forward",
]

_POLL_NS = SECOND
_FINISHED = ("Succeeded", "Failed")


class LogLine(NamedTuple):
    """A line of a log, without its end."""

    time_ns: int
    text: str


class CommandResult(msgspec.Struct, frozen=True):
    """What a command printed, and its exit code."""

    stdout: bytes
    stderr: bytes
    exit_code: int
    # How long the command runs; None: until the client ends it.
    wait_ns: int | None = 0


class PodProcesses(Protocol):
    """The processes in the containers of pods."""

    def log(self, pod: Pod, container: str, start_ns: int) -> list[LogLine]: ...

    def run(self, pod: Pod, container: str, command: Sequence[str]) -> CommandResult: ...

    async def connect(
        self, pod: Pod, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the process behind a port. Raises KubeschedError if there is none."""
        ...


class ReadPod(Protocol):
    """Returns the current state of the pod of a request; None if it was deleted."""

    def __call__(self) -> Pod | None: ...


class _Run(NamedTuple):
    """One run of a container, with its start and its end."""

    start_ns: int
    end_ns: int | None


class _LogOptions(NamedTuple):
    follow: bool
    timestamps: bool
    since_ns: int
    tail: int | None
    most_bytes: int | None


def answer_log(
    request: Request, read_pod: ReadPod, processes: PodProcesses, clock: Clock
) -> Response:
    """Return the log of a container. Raises ApiError 400."""
    pod = read_pod()
    assert pod is not None, "the caller has found the pod"
    container = _container_of(pod, request.query.get("container", ""))
    options = _log_options(request.query, clock.now_ns())
    if not pod.spec.node_name:
        return Response(200, b"", TEXT)
    run = _run_of(pod, container, previous=request.query.flag("previous"))
    lines = processes.log(pod, container, run.start_ns)
    if not options.follow or run.end_ns is not None:
        written = _written(lines, run, options, clock.now_ns())
        return Response(200, _limited(written, options), TEXT)
    return Response(
        200, content_type=TEXT, stream=_followed(lines, run, options, read_pod, container, clock)
    )


def _written(lines: list[LogLine], run: _Run, options: _LogOptions, now_ns: int) -> list[bytes]:
    """Return the lines that a run has written, limited by the parameters of the request."""
    until_ns = now_ns if run.end_ns is None else run.end_ns
    written = [each for each in lines if options.since_ns <= each.time_ns <= until_ns]
    if options.tail is not None:
        written = written[len(written) - min(options.tail, len(written)) :]
    return [_encoded(each, options) for each in written]


def _encoded(line: LogLine, options: _LogOptions) -> bytes:
    stamp = f"{_stamp(line.time_ns)} " if options.timestamps else ""
    return f"{stamp}{line.text}\n".encode()


def _stamp(time_ns: int) -> str:
    return f"{format_time(time_ns)[:-1]}.{time_ns % SECOND:09}Z"


def _limited(lines: list[bytes], options: _LogOptions) -> bytes:
    body = b"".join(lines)
    return body if options.most_bytes is None else body[: options.most_bytes]


async def _followed(
    lines: list[LogLine],
    run: _Run,
    options: _LogOptions,
    read_pod: ReadPod,
    container: str,
    clock: Clock,
) -> AsyncGenerator[bytes, None]:
    """Yield lines as they are written, until the container ends."""
    now_ns = clock.now_ns()
    if first := _written(lines, run, options, now_ns):
        yield b"".join(first)
    waiting = [each for each in lines if each.time_ns > now_ns]
    while True:
        next_ns = waiting[0].time_ns - clock.now_ns() if waiting else _POLL_NS
        await clock.sleep(max(1, min(next_ns, _POLL_NS)))
        pod = read_pod()
        end_ns = clock.now_ns()
        has_ended = pod is None
        if pod is not None:
            current = _run_of(pod, container, previous=False)
            has_ended = current.end_ns is not None or current.start_ns != run.start_ns
            end_ns = min(end_ns, current.end_ns or end_ns)
        due = [each for each in waiting if each.time_ns <= end_ns]
        waiting = waiting[len(due) :]
        if due:
            yield b"".join(_encoded(each, options) for each in due)
        if has_ended:
            return


def answer_exec(
    request: Request, read_pod: ReadPod, processes: PodProcesses, clock: Clock
) -> Response:
    """Run a command in a container. Raises ApiError 400, 500."""
    pod = read_pod()
    assert pod is not None, "the caller has found the pod"
    command = request.query.all("command")
    if not command:
        raise api_errors.bad_request("you must specify at least 1 command for the container")
    container = _running_container(pod, request, "exec into")
    if request.query.flag("stdin") and is_interactive_shell(command):
        run_line = _line_runner(pod, container, command[0], processes, clock)
        shell = InteractiveShell(run_line, has_terminal=request.query.flag("tty"))
        return _command_session(request, shell)
    result = processes.run(pod, container, command)

    async def produce(emit: Emit, _read: ReadInput) -> int | None:
        for channel, output in ((STDOUT, result.stdout), (STDERR, result.stderr)):
            if output:
                await emit(channel, output)
        if result.wait_ns is None:
            return None
        if result.wait_ns:
            await clock.sleep(result.wait_ns)
        return result.exit_code

    return _command_session(request, produce)


def _line_runner(
    pod: Pod, container: str, shell: str, processes: PodProcesses, clock: Clock
) -> RunLine:
    """Return a function that runs a line of a shell's input, and waits for its end if it ends."""

    async def run(line: str) -> tuple[bytes, bytes, int | None]:
        result = processes.run(pod, container, [shell, "-c", line])
        if result.wait_ns is None:
            return result.stdout, result.stderr, None
        await clock.sleep(result.wait_ns)
        return result.stdout, result.stderr, result.exit_code

    return run


def answer_attach(
    request: Request, read_pod: ReadPod, processes: PodProcesses, clock: Clock
) -> Response:
    """Show what a container writes from now on. Raises ApiError 400, 500."""
    pod = read_pod()
    assert pod is not None, "the caller has found the pod"
    container = _running_container(pod, request, "attach to")
    run = _run_of(pod, container, previous=False)
    options = _LogOptions(True, False, clock.now_ns(), None, None)
    lines = processes.log(pod, container, run.start_ns)

    async def produce(emit: Emit, _read: ReadInput) -> int | None:
        async for chunk in _followed(lines, run, options, read_pod, container, clock):
            await emit(STDOUT, chunk)
        return 0

    return _command_session(request, produce)


def answer_port_forward(
    request: Request, read_pod: ReadPod, processes: PodProcesses, _clock: Clock
) -> Response:
    """Forward connections to ports of a pod. Raises ApiError 400."""
    pod = read_pod()
    assert pod is not None, "the caller has found the pod"
    if not pod.spec.node_name:
        raise api_errors.bad_request(f"pod {pod.metadata.name} does not have a host assigned")
    if pod.status.phase != "Running":
        text = (
            f"unable to forward port because pod is not running. Current status={pod.status.phase}"
        )
        raise api_errors.bad_request(text)
    session = PortForwarding(lambda port: processes.connect(pod, port))
    if _wants_websocket(request):
        offered = request.headers.get("sec-websocket-protocol")
        if "SPDY" in offered:
            return Response(websocket=session.over_websocket())
        ports = forwarded_ports(request.query)
        return Response(
            websocket=ChannelForwarding(ports, lambda port: processes.connect(pod, port))
        )
    if _wants_spdy(request):
        return Response(upgraded=session.over_spdy())
    raise api_errors.bad_request("unable to upgrade: neither a WebSocket nor SPDY was requested")


def _running_container(pod: Pod, request: Request, action: str) -> str:
    """Return the container of a request for a running process. Raises ApiError 400, 500."""
    container = _container_of(pod, request.query.get("container", ""))
    if not pod.spec.node_name:
        raise api_errors.bad_request(f"pod {pod.metadata.name} does not have a host assigned")
    if pod.status.phase in _FINISHED:
        raise api_errors.bad_request(
            f"cannot {action} a container in a completed pod; current phase is {pod.status.phase}"
        )
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    status = next((each for each in statuses if each.name == container), None)
    if status is None or status.state.running is None:
        raise api_errors.internal_error(
            f'unable to upgrade connection: container not found ("{container}")'
        )
    return container


def _command_session(request: Request, produce: Produce) -> Response:
    """Return the response that starts a session. Raises ApiError 400."""
    if _wants_websocket(request):
        return Response(websocket=WebSocketCommand(produce))
    if _wants_spdy(request):
        headers = spdy_protocol(request)
        return Response(upgraded=SpdyCommand(produce, request.query, headers))
    raise api_errors.bad_request("unable to upgrade: neither a WebSocket nor SPDY was requested")


def _wants_websocket(request: Request) -> bool:
    return request.headers.get("upgrade").lower() == "websocket"


def _wants_spdy(request: Request) -> bool:
    return request.headers.get("upgrade").upper() == "SPDY/3.1"


def _container_of(pod: Pod, name: str) -> str:
    """Return the container that a request concerns. Raises ApiError 400."""
    names = [each.name for each in pod.spec.containers]
    init_names = [each.name for each in pod.spec.init_containers]
    if not name:
        if len(names) == 1:
            return names[0]
        choice = f"choose one of: [{' '.join(names)}]"
        if init_names:
            choice += f" or one of the init containers: [{' '.join(init_names)}]"
        raise api_errors.bad_request(
            f"a container name must be specified for pod {pod.metadata.name}, {choice}"
        )
    if name not in (*names, *init_names):
        text = f"container {name} is not valid for pod {pod.metadata.name}"
        raise api_errors.bad_request(text)
    return name


def _run_of(pod: Pod, container: str, *, previous: bool) -> _Run:
    """Return the present or the previous run of a container. Raises ApiError 400."""
    about = f'container "{container}" in pod "{pod.metadata.name}"'
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    status = next((each for each in statuses if each.name == container), None)
    if status is None:
        # The kubelet here reports a container when it starts.
        is_pending = pod.status.phase == "Pending" and not previous
        why = "waiting to start: ContainerCreating" if is_pending else "not available"
        raise api_errors.bad_request(f"{about} is {why}")
    state = status.last_state if previous else _present_state(status)
    if previous and state.terminated is None:
        raise api_errors.bad_request(f"previous terminated {about} not found")
    if state.terminated is not None:
        ended = state.terminated
        return _Run(parse_time(ended.started_at or ""), parse_time(ended.finished_at or ""))
    if state.running is not None:
        return _Run(parse_time(state.running.started_at or ""), None)
    reason = state.waiting.reason if state.waiting is not None else "ContainerCreating"
    raise api_errors.bad_request(f"{about} is waiting to start: {reason}")


def _present_state(status: ContainerStatus) -> ContainerState:
    """Return the state; a container that waits for its restart shows the log of its last run."""
    is_restarting = status.state.waiting is not None and status.last_state.terminated is not None
    return status.last_state if is_restarting else status.state


def _log_options(query: Query, now_ns: int) -> _LogOptions:
    since_ns = 0
    if (seconds := _number(query, "sinceSeconds", least=1)) is not None:
        since_ns = now_ns - seconds * SECOND
    elif text := query.get("sinceTime", ""):
        try:
            since_ns = parse_time(text)
        except ValueError as error:
            raise api_errors.bad_request(f"sinceTime: {error}") from error
    return _LogOptions(
        query.flag("follow"),
        query.flag("timestamps"),
        since_ns,
        _number(query, "tailLines", least=0),
        _number(query, "limitBytes", least=1),
    )


def _number(query: Query, name: str, *, least: int) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 18 or int(text) < least:
        raise api_errors.bad_request(f"{name}: {text!r} is not a number of at least {least}")
    return int(text)
