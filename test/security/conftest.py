"""A keystore for the enclaves of config/security, and processes that run in one of them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from keystore import make_keystore
from policies import Grant, enclaves

from traj_integrator_ros.traffic.node_process import PythonProcess

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "node"))
from control_msgs_package import report_type

__all__ = ["report_type"]

WITHOUT_SECURITY = "doesn't have the security libraries"
"""What Fast DDS that was built without security says where security is asked for."""


@pytest.fixture(scope="session")
def granted(project_root: Path) -> dict[str, set[Grant]]:
    """What the policies of config/security grant, by enclave."""
    return {
        path: grants
        for policy in sorted((project_root / "config" / "security").glob("*.policy.xml"))
        for path, grants in enclaves(policy).items()
    }


@pytest.fixture(scope="session")
def security(granted: dict[str, set[Grant]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that take part in secured communication only."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make keys with")
    folder = tmp_path_factory.mktemp("security") / "keystore"
    keystore = make_keystore(folder, int(os.environ["ROS_DOMAIN_ID"]), granted)
    return {
        "ROS_SECURITY_ENABLE": "true",
        "ROS_SECURITY_STRATEGY": "Enforce",
        "ROS_SECURITY_KEYSTORE": str(keystore),
    }


class SecuredProcess(PythonProcess):
    """A Python program in an enclave, its output in a file."""

    def __init__(self, root: Path, log: Path, environment: dict[str, str], enclave: str, arguments: tuple) -> None:
        given = list(map(str, arguments))
        ros = [] if "--ros-args" in given else ["--ros-args"]
        super().__init__(
            [*given, *ros, "--enclave", enclave], log, environment={**environment, "PYTHONUNBUFFERED": "1"}, cwd=root
        )


@pytest.fixture
def start(project_root: Path, security: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., SecuredProcess]]:
    """A function that starts a Python program, given by its arguments, in an enclave."""
    started: list[SecuredProcess] = []

    def run(enclave: str, *arguments: str | Path) -> SecuredProcess:
        log = tmp_path / f"{len(started)}.log"
        started.append(SecuredProcess(project_root, log, security, enclave, arguments))
        return started[-1]

    yield run
    for process in reversed(started):
        process.close()


@pytest.fixture(scope="session")
def has_security(security: dict[str, str], project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> bool:
    """Whether the middleware was built with DDS security."""
    code = "import rclpy; rclpy.init(); rclpy.create_node('planner')"
    log = tmp_path_factory.mktemp("probe") / "log"
    process = SecuredProcess(project_root, log, security, "/planner", ("-c", code))
    process.wait(60.0)
    return WITHOUT_SECURITY not in process.output


@pytest.fixture
def enforced(has_security: bool) -> None:
    """Skips where nothing can be enforced."""
    if not has_security:
        pytest.skip("Fast DDS was built without security, as in the wheels from PyPI")
