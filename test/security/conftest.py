"""A keystore for the enclaves of config/security, and processes that run in one of them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from keystore import make_keystore
from policies import Grant, enclaves

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


class SecuredProcess:
    """A Python program in an enclave, its output in a file."""

    def __init__(self, root: Path, log: Path, environment: dict[str, str], enclave: str, arguments: tuple) -> None:
        self._log = log
        command = [sys.executable, *map(str, arguments)]
        if "--ros-args" not in command:
            command.append("--ros-args")
        path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "--enclave", enclave],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=root,
                env={**os.environ, **environment, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
            )

    @property
    def output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait(self, timeout_s: float = 60.0) -> int:
        return self._process.wait(timeout_s)

    def wait_for(self, text: str, timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while text not in self.output:
            assert self._process.poll() is None and time.monotonic() < deadline, self.output
            time.sleep(0.05)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(10.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


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
    process.wait()
    return WITHOUT_SECURITY not in process.output


@pytest.fixture
def enforced(has_security: bool) -> None:
    """Skips where nothing can be enforced."""
    if not has_security:
        pytest.skip("Fast DDS was built without security, as in the wheels from PyPI")
