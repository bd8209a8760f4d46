"""A Python that starts in a moment: its programs are forked by a process that has imported the libraries they use.

Importing torch takes 2 s of a core, and the tests start hundreds of programs. `preloaded_python` is a command that
takes arguments as `python` does and passes them on, with its environment, folder and files, to a process that has
imported what others wrote: torch, rclpy, matplotlib. That process forks one that runs the program as Python would, and
imports the modules of this project itself. The command forwards signals, ends as the program ends, and takes it along
if killed.

The process that computes has another process id than the command: what asks for memory or children by the id takes
Python itself. So does the command where there are options that it does not know, or more files than the first three.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

PRELOADED = (
    "numpy",
    "torch",
    "torch._dynamo",  # torch.optim and many others import it at the first call
    "yaml",
    "rclpy",
    "rclpy.node",
    "rclpy.executors",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "rosbags.highlevel",
    "rosbags.rosbag2",
)
HELD = ("OMP_NUM_THREADS", "LD_LIBRARY_PATH", "TRITON_INTERPRET", "PYTHONFAULTHANDLER", "COVERAGE_PROCESS_START")
"""Variables that count while libraries are imported or Python starts: if they differ, the real interpreter runs."""

COMMAND = """#!{python} -IS
import marshal, os, select, signal, socket, sys

def call(server):
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    forwarded = {{signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1}}
    signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)
    job = marshal.dumps((os.path.abspath(sys.argv[0]), sys.argv[1:], os.getcwd(), dict(os.environ), ignored))
    socket.send_fds(server, [len(job).to_bytes(8, "little")], [0, 1, 2])
    server.sendall(job)
    program = int.from_bytes(server.recv(8), "little")
    def forward(number, frame):
        try:
            os.kill(program, number)
        except ProcessLookupError:
            pass  # it has just ended
    for number in forwarded:
        signal.signal(number, forward)
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())  # recv alone would sleep on if a signal came just before it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, forwarded)
    while server not in select.select([server, woken], [], [])[0]:
        woken.recv(64)
    status = int.from_bytes(server.recv(8), "little")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))

def is_served():
    held = {held!r}
    if any(os.environ.get(name) != value for name, value in held.items()):
        return False
    words = sys.argv[2:] if sys.argv[1:2] == ["-u"] else sys.argv[1:]
    files = [int(name) for name in os.listdir("/proc/self/fd")]
    others = [file for file in files if file > 2 and os.path.exists("/proc/self/fd/%d" % file)]
    return bool(words) and (words[0] in ("-c", "-m") or words[0][0] != "-") and not others

if is_served():
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect({address!r})
    except OSError:  # it has ended
        pass
    else:
        call(server)
os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""


SHARED = "PRELOADED_PYTHON"
"""Variable that names the command of the process that runs several workers of pytest."""


def share_preloaded_python() -> None:
    """Let this process and those that it starts use one command."""
    os.environ[SHARED] = preloaded_python()


@functools.cache
def preloaded_python() -> str:
    """The path of the command; the process behind it starts with the first call and ends with this one."""
    if shared := os.environ.get(SHARED):
        return shared
    address = start_server(*PRELOADED)
    command = Path(address).with_name("python")
    held = {name: os.environ.get(name) for name in HELD}
    command.write_text(COMMAND.format(python=sys.executable, address=address, held=held), encoding="utf-8")
    command.chmod(0o755)
    return str(command)


def start_server(*modules: str, python: str = sys.executable, **environment: str) -> str:
    """The address of a new process that imports modules and forks programs; it ends with this one."""
    folder = Path(tempfile.mkdtemp(prefix="python_"))
    command = [python, __file__, str(folder / "socket"), *modules]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen(command, **pipes, env={**os.environ, **environment}, start_new_session=True)
    atexit.register(_end_server, os.getpid(), server, folder)
    server.stdout.readline()  # until it listens
    return str(folder / "socket")


def _end_server(owner: int, server: subprocess.Popen, folder: Path) -> None:
    if os.getpid() == owner:  # not in a fork of it
        server.communicate()  # its standard input ends
        shutil.rmtree(folder, ignore_errors=True)


def main(address: str, modules: list[str]) -> None:
    """Import, and fork a program for each caller until standard input ends."""
    import gc
    import importlib
    import signal
    import socket

    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen(64)
    print("listens", flush=True)
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # collections skip the memory that programs share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for those that wait for the programs
    if job := _next_job(server):
        _end(_exit_code(*job))


def _next_job(server) -> tuple | None:
    """Wait for callers: returns a job in every process that is forked for one, and None here at the end."""
    import select
    import signal

    while True:
        ready, _, _ = select.select([0, server], [], [])
        if 0 in ready:
            return None
        caller, _ = server.accept()
        if os.fork():
            caller.close()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        server.close()
        return _received(caller)


def _received(caller) -> tuple | None:
    """Fork once more: the program returns with what it is to do, its parent tells the caller how it ends."""
    import marshal
    import select
    import signal
    import socket

    length, files, _, _ = socket.recv_fds(caller, 8, 3)
    data = b""
    while len(data) < int.from_bytes(length, "little"):
        data += caller.recv(1 << 20)
    program = os.fork()
    if program == 0:
        caller.close()
        return (*marshal.loads(data), files)
    for file in (0, 1, *files):
        os.close(file)
    with contextlib.suppress(OSError):  # the caller may have been killed by now
        caller.sendall(program.to_bytes(8, "little"))
    watched = os.pidfd_open(program)
    ready, _, _ = select.select([caller, watched], [], [])
    if watched not in ready:  # the caller was killed
        os.kill(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    with contextlib.suppress(OSError):
        caller.sendall(status.to_bytes(8, "little"))
    os._exit(0)


def _exit_code(*job: object) -> int:
    """Run a program and return its exit code; a signal is negative, as in Python."""
    import signal

    try:
        _run(*job)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        own = error.__traceback__.tb_next  # the frames of this file are left out
        sys.excepthook(type(error), error.with_traceback(own.tb_next), own.tb_next)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _end(code: int) -> NoReturn:
    """End without finalizing modules, which takes longer than most programs."""
    import signal
    import threading

    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


def _run(
    command: str, words: list[str], folder: str, environment: dict[str, str], no_interrupts: bool, files: list[int]
) -> None:
    """Do what `python` would do with these words."""
    import runpy
    import signal
    import types

    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.executable = command  # the programs that it starts are forked, too
    signal.signal(signal.SIGINT, signal.SIG_IGN if no_interrupts else signal.default_int_handler)
    if words[0] == "-u":
        del words[0]
        sys.stdout.reconfigure(write_through=True)
    kind, rest = (words[0], words[1:]) if words[0] in ("-c", "-m") else ("", words)
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    first = os.path.dirname(os.path.abspath(rest[0])) if not kind else folder if kind == "-m" else ""
    sys.path[:] = [first, *paths, *sys.path[1:]]
    main_module = sys.modules["__main__"] = types.ModuleType("__main__")
    if kind == "-m":
        sys.argv[:] = rest
        runpy._run_module_as_main(rest[0])
        return
    sys.argv[:] = ["-c", *rest[1:]] if kind else rest
    source = rest[0] if kind else Path(rest[0]).read_bytes()
    if not kind:
        main_module.__file__ = rest[0]
    exec(compile(source, "<string>" if kind else rest[0], "exec"), main_module.__dict__)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
