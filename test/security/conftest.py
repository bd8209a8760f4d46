"""A keystore for the enclaves of config/security, and processes that run in one of them."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from policies import Grant, enclaves
from preloaded_process import PreloadedProcess

WITHOUT_SECURITY = "doesn't have the security libraries"
"""Words of Fast DDS when it was built without security, but security is asked for."""


@pytest.fixture(scope="session")
def granted(project_root: Path) -> dict[str, set[Grant]]:
    """Permissions granted by the policies of config/security, by enclave."""
    return {
        path: grants
        for policy in sorted((project_root / "config" / "security").glob("*.policy.xml"))
        for path, grants in enclaves(policy).items()
    }


@pytest.fixture(scope="session")
def security(granted: dict[str, set[Grant]], project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The environment of processes that take part in secured communication only.

    Its keys are made as docs/security.md does; without `ros2 security` there are enclaves, but none have any.
    """
    keystore = tmp_path_factory.mktemp("security") / "keystore"
    if importlib.util.find_spec("sros2"):
        _ros2_security("create_keystore", keystore)
        for enclave in granted:
            _ros2_security("create_enclave", keystore, enclave)
            kind = "node" if enclave == "/traj_integrator" else "examples"
            _ros2_security("create_permission", keystore, enclave, project_root / f"config/security/{kind}.policy.xml")
    for enclave in granted:
        (keystore / "enclaves" / enclave[1:]).mkdir(parents=True, exist_ok=True)
    return {
        "ROS_SECURITY_ENABLE": "true",
        "ROS_SECURITY_STRATEGY": "Enforce",
        "ROS_SECURITY_KEYSTORE": str(keystore),
    }


def _ros2_security(*arguments: str | Path) -> None:
    done = subprocess.run(["ros2", "security", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def secured(project_root: Path, security: dict[str, str]) -> Callable[..., PreloadedProcess]:
    """A function that starts a Python program, given by its arguments, in an enclave, its output in a file."""

    def run(log: Path, enclave: str, *arguments: str | Path) -> PreloadedProcess:
        ros = [] if "--ros-args" in arguments else ["--ros-args"]
        environment = {**security, "PYTHONUNBUFFERED": "1"}
        command = [*arguments, *ros, "--enclave", enclave]
        return PreloadedProcess(command, log, environment=environment, cwd=project_root)

    return run


@pytest.fixture
def start(secured: Callable[..., PreloadedProcess], tmp_path: Path) -> Iterator[Callable[..., PreloadedProcess]]:
    """The same for the duration of a test."""
    started: list[PreloadedProcess] = []

    def run(enclave: str, *arguments: str | Path) -> PreloadedProcess:
        started.append(secured(tmp_path / f"{len(started)}.log", enclave, *arguments))
        return started[-1]

    yield run
    for process in reversed(started):
        process.stop()


@pytest.fixture(scope="session")
def has_security(secured: Callable[..., PreloadedProcess], tmp_path_factory: pytest.TempPathFactory) -> bool:
    """Return whether the middleware was built with DDS security."""
    code = "import rclpy; rclpy.init(); rclpy.create_node('planner')"
    process = secured(tmp_path_factory.mktemp("probe") / "log", "/planner", "-c", code)
    process.wait(60.0)
    return WITHOUT_SECURITY not in process.output


@pytest.fixture
def enforced(has_security: bool) -> None:
    """Skips where security cannot be enforced."""
    if not has_security:
        pytest.skip("Fast DDS was built without security, as in the wheels from PyPI")
    if not importlib.util.find_spec("sros2"):
        pytest.skip("there is no `ros2 security` to make keys with")
