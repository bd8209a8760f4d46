"""Shared by all tests: a ROS domain of their own, DDS that stays on this machine, their order, skips that say why.

Environment variables are set while this file is imported, before anything imports torch or rclpy, so that the
processes that tests start inherit them.
"""

from __future__ import annotations

import fcntl
import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROJECT_ROOT = Path(__file__).resolve().parent.parent
# kit, benchmarks, rig and soak are tools of the repository and not installed with the package
sys.path.append(str(PROJECT_ROOT))
# Tests of many rooms use the cases of the kernels and the engine, and the fixtures of the node.
sys.path += [str(PROJECT_ROOT / "test" / room) for room in ("kernels", "engine", "node")]

# Their assertions explain themselves as those of a test module do.
pytest.register_assert_rewrite("hostile_messages", "scenarios")

from kit.local_dds import isolate  # noqa: E402
from traj_integrator_ros.node.shared_memory import remove_abandoned_segments  # noqa: E402

SHARED_DATA = PROJECT_ROOT.parent / "shared" / "data"


def _prepare_environment() -> None:
    isolate()
    os.environ["RMW_IMPLEMENTATION"] = "rmw_fastrtps_cpp"
    # Several test processes and their nodes share the cores; more threads than that make all of them slower.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("MPLBACKEND", "Agg")
    # A shell starts background processes with SIGINT ignored, and programs that tests start would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_prepare_environment()


def _missing_ros() -> str:
    for module in ("rclpy", "traj_integrator_interfaces"):
        if importlib.util.find_spec(module) is None:
            return f"{module} cannot be imported"
    return ""


if _missing_ros():
    collect_ignore = ["client", "node", "robustness", "wire"]
else:
    from node_fixtures import client, connect, report_type, serve, shared_client, shared_node, start_node

    __all__ = ["client", "connect", "report_type", "serve", "shared_client", "shared_node", "start_node"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The tests that take long."""
    parser.addoption("--thorough", action="store_true", help="also what is marked so: before a release")


def pytest_configure(config: pytest.Config) -> None:
    """Property tests try the same examples in every run, others with HYPOTHESIS_PROFILE=random, without a deadline."""
    remove_abandoned_segments()  # left behind by an earlier run that was killed
    gc.disable()  # until all is imported
    if importlib.util.find_spec("hypothesis") is None:
        return
    from hypothesis import Phase, settings

    settings.register_profile("repeatable", deadline=None, derandomize=True)
    settings.register_profile("random", deadline=None, print_blob=True)
    settings.register_profile("first failure", deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_collection_finish() -> None:
    """Later garbage collections skip everything that is imported; scanning it would take half a second each time."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Removes the shared memory of the processes that tests have killed."""
    remove_abandoned_segments()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mixes files of real nodes, which wait for much of their time, among those that compute; long ones come first.

    What is marked thorough is left out, and counted as deselected, unless it is asked for.
    """
    if not config.option.thorough and (left_out := [item for item in items if item.get_closest_marker("thorough")]):
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    marks: dict[Path, set[str]] = {}
    for item in items:
        marks.setdefault(item.path, set()).update(mark.name for mark in item.iter_markers())
    files = sorted(marks, key=lambda path: ("alone" in marks[path], "slow" not in marks[path]))
    place: dict[Path, float] = {}
    for with_nodes in (True, False):
        group = [path for path in files if ("ros" in marks[path]) == with_nodes]
        place |= {path: k / len(group) + ("alone" in marks[path]) for k, path in enumerate(group)}
    items.sort(key=lambda item: place[item.path])


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Runs what measures time while no other worker runs a test."""
    with (PROJECT_ROOT / "setup.cfg").open() as turn:
        fcntl.flock(turn, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Leaves to the plugin of launch_testing, where there is one, what are launch tests that can run, and nothing else.

    It imports every module while it collects a folder, and one that skips itself would skip all its neighbours.
    """
    if module_path.name.startswith("test_launch_") and not _missing_ros():
        return None
    return pytest.Module.from_parent(parent, path=module_path)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """The facts that decide what runs and what is skipped."""
    return [
        f"ROS domain {os.environ['ROS_DOMAIN_ID']}, localhost only",
        f"rclpy: {_missing_ros() or 'available'}; CUDA: {_missing_cuda() or 'available'}; "
        f"recordings: {SHARED_DATA if SHARED_DATA.is_dir() else 'none'}",
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Lines that passed tests have to tell: their property `summary`."""
    passed = terminalreporter.getreports("passed")
    for told in sorted({text for report in passed for name, text in report.user_properties if name == "summary"}):
        terminalreporter.write_line(told)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests marked ros or gpu if ROS or a GPU is missing, and says so."""
    for marker, missing in (("ros", _missing_ros), ("gpu", _missing_cuda)):
        if item.get_closest_marker(marker) and (reason := missing()):
            pytest.skip(reason)


def _missing_cuda() -> str:
    import torch

    return "" if torch.cuda.is_available() else "torch sees no CUDA device"


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The root folder of the repository."""
    return PROJECT_ROOT


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """A function from a path below ../shared/data to that file; skips the test where it does not exist."""

    def find(path: str) -> Path:
        file = SHARED_DATA / path
        if not file.exists():
            pytest.skip(f"no recording ../shared/data/{path}")
        return file

    return find
