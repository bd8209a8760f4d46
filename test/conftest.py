"""What all tests share: a ROS domain of their own, DDS that stays on this machine, skips that say why.

Environment variables are set while this file is imported, before anything imports torch or rclpy, so that the
processes that tests start inherit them.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from traj_integrator_ros.node.shared_memory import remove_abandoned_segments

PROJECT_ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = PROJECT_ROOT.parent / "shared" / "data"
# Larger ids collide with the ports that Linux hands out to ordinary connections.
ROS_DOMAIN_IDS = range(1, 102)

_domain_locks: list[int] = []  # file descriptors; the locks last as long as this process


def _claim_ros_domain() -> int:
    """Locks a ROS domain id that no other test process on this machine holds, and returns it."""
    folder = Path(tempfile.gettempdir()) / "traj_integrator_ros_test_domains"
    folder.mkdir(exist_ok=True)
    for domain_id in random.SystemRandom().sample(ROS_DOMAIN_IDS, len(ROS_DOMAIN_IDS)):
        try:
            lock = os.open(folder / f"{domain_id}.lock", os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:  # another user's
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        _domain_locks.append(lock)
        return domain_id
    raise pytest.UsageError(f"all {len(ROS_DOMAIN_IDS)} ROS domain ids are locked by test runs; see {folder}")


def _prepare_environment() -> None:
    os.environ["ROS_DOMAIN_ID"] = str(_claim_ros_domain())
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ["RMW_IMPLEMENTATION"] = "rmw_fastrtps_cpp"
    # Fast DDS 2 knows the one name, Fast DDS 3 the other, and warns of the one.
    fast_dds = "FASTRTPS" if os.environ.get("ROS_DISTRO") in ("humble", "iron", "jazzy") else "FASTDDS"
    os.environ[f"{fast_dds}_DEFAULT_PROFILES_FILE"] = str(PROJECT_ROOT / "config" / "fastdds_localhost.xml")
    # Several test processes and their nodes share the cores; more threads than that make all of them slower.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("MPLBACKEND", "Agg")


_prepare_environment()


def pytest_configure(config: pytest.Config) -> None:
    """Property tests try the same examples in every run, others with HYPOTHESIS_PROFILE=random, and take their time."""
    remove_abandoned_segments()  # of an earlier run that was killed
    if importlib.util.find_spec("hypothesis") is None:
        return
    from hypothesis import settings

    settings.register_profile("repeatable", deadline=None, derandomize=True)
    settings.register_profile("random", deadline=None, print_blob=True)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes the shared memory of the processes that tests have killed."""
    remove_abandoned_segments()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Leaves to launch_testing what are launch tests that can run, and nothing else.

    Its plugin imports every module while it collects the folder: one that skips itself would skip all its neighbours.
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


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests marked ros or gpu where there is none, with the reason."""
    for marker, missing in (("ros", _missing_ros), ("gpu", _missing_cuda)):
        if item.get_closest_marker(marker) and (reason := missing()):
            pytest.skip(reason)


def _missing_ros() -> str:
    for module in ("rclpy", "traj_integrator_interfaces"):
        if importlib.util.find_spec(module) is None:
            return f"{module} cannot be imported"
    return ""


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
