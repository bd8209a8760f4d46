"""The command `preloaded_python` is to its callers what `python` is."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from preloaded_python import preloaded_python


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([preloaded_python(), *arguments], capture_output=True, text=True, timeout=120, **options)


def start(program: str) -> subprocess.Popen[str]:
    """Start a program, which prints its process id first."""
    program = f"import os, time; print(os.getpid(), flush=True); {program}"
    return subprocess.Popen([preloaded_python(), "-c", program], stdout=subprocess.PIPE, text=True)


def test_a_program_finds_its_arguments_folder_environment_and_input(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("NAME = 'neighbour'")
    (tmp_path / "program.py").write_text(
        "import os, sys, neighbour\n"
        "print(__name__, sys.argv[1:], os.getcwd(), os.environ['WISH'], sys.stdin.read(), neighbour.NAME)\n"
    )
    environment = {**os.environ, "WISH": "wish"}
    for words in (("program.py",), ("-m", "program")):
        done = run(*words, "--one", "two", cwd=tmp_path, env=environment, input="input")
        assert done.stdout == f"__main__ ['--one', 'two'] {tmp_path} wish input neighbour\n", done.stderr


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("raise SystemExit('wrong')", 1),
        ("import os; os._exit(4)", 4),
        ("raise ValueError('wrong')", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    ],
)
def test_it_ends_as_its_program_ends(program: str, code: int) -> None:
    done = run("-c", program)
    assert done.returncode == code, done.stderr
    assert done.stderr.endswith("wrong\n") == ("wrong" in program)


def test_what_runs_at_exit_runs() -> None:
    program = "import atexit, threading, time; atexit.register(print, 'last'); "
    program += "threading.Timer(0.3, print, ['thread']).start(); print('first')"
    assert run("-c", program).stdout == "first\nthread\nlast\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_program(number: signal.Signals) -> None:
    handler = f"import signal, sys; signal.signal({int(number)}, lambda *_: sys.exit(7)); print('up', flush=True); "
    # Many short sleeps: Python begins a sleep with a signal that came just before it, and takes the signal afterwards.
    process = start(handler + "[time.sleep(0.1) for _ in range(600)]")
    assert [process.stdout.readline() for _ in range(2)][1] == "up\n"
    process.send_signal(number)
    assert process.wait(20) == 7


def test_a_program_does_not_outlive_its_command() -> None:
    process = start("time.sleep(60)")
    program = int(process.stdout.readline())
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{program}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_libraries_are_there_for_programs_but_not_this_project() -> None:
    code = "import sys; print('torch' in sys.modules, any(name.startswith('traj_integrator') for name in sys.modules))"
    for program in (code, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"):
        assert run("-c", program).stdout == "True False\n"


def test_options_and_libraries_it_does_not_know_take_python_itself() -> None:
    assert run("-V").stdout.startswith("Python 3.")
    done = run("-c", "import sys; print('torch' in sys.modules)", env={**os.environ, "OMP_NUM_THREADS": "3"})
    assert done.stdout == "False\n", done.stderr
