"""The launch files as a user meets them, by `ros2 launch`: arguments, their order of precedence, clear errors."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("launch_ros", reason="launch_ros cannot be imported: it comes with a ROS 2 installation")
pytest.importorskip("traj_integrator_interfaces.msg", reason="traj_integrator_interfaces is not built")

from scenarios import CONFIG, REPOSITORY, SCENARIOS, Scenario, integrates_for_a_caller

pytestmark = pytest.mark.skipif(shutil.which("ros2") is None, reason="the command ros2 is not installed")

ARGUMENTS = {
    "integrator.launch.py": {
        *("robot", "params_file", "namespace", "device", "log_level", "autostart", "transport_profile", "respawn"),
        *("joint_states_topic", "joint_trajectory_topic", "controller_state_topic", "use_sim_time"),
    },
    "demo.launch.py": {"data", "out", "device", "namespace", "log_level", "transport_profile", "respawn"},
}

WRONG_ARGUMENTS = {
    "robt:=ur5e": "robt:=ur5e: expected arguments of integrator.launch.py, which are robot, params_file, namespace,",
    "use_sim_time:=yes": "use_sim_time: expected one of true, false; got 'yes'",
    "robot:=panda": "robot: expected one of fr3, franka, ur10e, ur3e, ur5e, none; got 'panda'",
    "robot:=none": "params_file: expected a YAML file that names the joints, because robot is none; got none",
    "params_file:=/nowhere.yaml": "params_file: expected an existing file, got '/nowhere.yaml'",
    "autostart:=maybe": "autostart: expected one of true, false; got 'maybe'",
    "respawn:=2": "respawn: expected one of true, false; got '2'",
    "log_level:=loud": "log_level: expected one of debug, info, warn, error, fatal; got 'loud'",
    "transport_profile:=fast": "transport_profile: expected one of localhost, shared_memory, none, auto, or the path",
    "transport_profile:=/nowhere.xml": "transport_profile: expected an existing file, got '/nowhere.xml'",
}


PACKAGE = "traj_integrator_ros"


class Launch:
    """`ros2 launch` of a file, of the source tree by its name alone or of a package, output in a file.

    It has a process group of its own.
    """

    def __init__(self, log: Path, name: str | Path, *arguments: str, package: str = "") -> None:
        self._log = log
        file = [package, name] if package else [str(REPOSITORY / "launch" / name)]
        command = ["ros2", "launch", "--noninteractive", *file, *arguments]
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def node_pid(self) -> int:
        """Return the node's process id once it has started; after a restart, the latest one."""
        started = r"integrator_node-\d+\]: process started with pid \[(\d+)\]"
        self.wait_for(started)
        return int(re.findall(started, self.output)[-1])

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until the output matches a pattern."""
        deadline = time.monotonic() + 60.0
        while (found := re.search(pattern, self.output)) is None:
            assert time.monotonic() < deadline, self.output
            time.sleep(0.05)
        return found

    def wait(self, timeout_s: float = 60.0) -> int:
        return self._process.wait(timeout_s)

    def interrupt(self) -> None:
        """Interrupt the launch and the node as Ctrl-C in a terminal does, and check that both end well."""
        os.killpg(self._process.pid, signal.SIGINT)
        code = self.wait()
        assert code == 0 and "process has finished cleanly" in self.output, self.output
        assert "Traceback" not in self.output, self.output

    def close(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., Launch]]:
    started: list[Launch] = []

    def start(name: str | Path, *arguments: str, **options: str) -> Launch:
        started.append(Launch(tmp_path / f"launch_{len(started)}.txt", name, *arguments, **options))
        return started[-1]

    yield start
    for process in started:
        process.close()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_argument_is_described_and_has_a_default(launch, name):
    shown = launch(name, "--show-args")
    assert shown.wait() == 0, shown.output
    described = re.findall(r"^ +'(\w+)':\n +(\S.*)\n +\(default: ", shown.output, flags=re.MULTILINE)
    assert {argument for argument, _ in described} == ARGUMENTS[name]
    assert all("no description" not in text for _, text in described)


@pytest.mark.parametrize(("argument", "message"), WRONG_ARGUMENTS.items(), ids=WRONG_ARGUMENTS)
def test_wrong_argument_ends_the_launch_with_one_line_and_no_process(launch, argument, message):
    ended = launch("integrator.launch.py", argument)
    assert ended.wait() == 1
    errors = [line for line in ended.output.splitlines() if "[ERROR]" in line]
    assert len(errors) == 1 and message in errors[0], ended.output
    assert "process started" not in ended.output and "Traceback" not in ended.output


@pytest.mark.parametrize("package", ["", PACKAGE], ids=["by its path", "by its package"])
def test_an_argument_that_the_demo_does_not_have_is_an_error(launch, package):
    ended = launch("demo.launch.py", "robot:=franka", package=package)
    assert ended.wait() == 1 and "process started" not in ended.output
    [error] = [line for line in ended.output.splitlines() if "[ERROR]" in line]
    assert "robot:=franka: expected arguments of demo.launch.py, which are data, out," in error


def test_topics_and_the_clock_are_those_of_the_arguments(launch):
    topics = {
        "joint_states_topic": "/cell/joint_states",
        "joint_trajectory_topic": "/arm_controller/joint_trajectory",
        "controller_state_topic": "arm_controller/controller_state",
    }
    arguments = [f"{name}:={topic}" for name, topic in topics.items()]
    process = launch("integrator.launch.py", "namespace:=left", "use_sim_time:=true", *arguments)
    remapped = {name: topics[f"{name.strip('~/')}_topic"] for name in ("joint_states", "~/joint_trajectory")}
    client = Scenario("franka", namespace="left", remappings=tuple(remapped.items())).client()
    try:
        client.wait_until_active()
        assert client.parameter("use_sim_time") is True
        kinds = dict(client.node.get_subscriber_names_and_types_by_node("traj_integrator", "/left"))
        assert {"/cell/joint_states", "/clock", "/left/robot_description"} <= kinds.keys()
        assert "/left/arm_controller/controller_state" in kinds or find_spec("control_msgs") is None
        published = dict(client.node.get_publisher_names_and_types_by_node("traj_integrator", "/left"))
        assert "/arm_controller/joint_trajectory" in published
        unused = {"/left/joint_states", "/left/controller_state", "/left/traj_integrator/joint_trajectory"}
        assert not unused & (kinds.keys() | published.keys())
    finally:
        client.close()
    process.interrupt()


def test_params_file_beats_the_robots_file_and_arguments_beat_both(launch, tmp_path):
    scenario = SCENARIOS[1]
    overrides = tmp_path / "overrides.yaml"
    overrides.write_text("/**:\n  ros__parameters:\n    dt: 0.125\n    device: cuda\n    autostart: true\n")
    process = launch(
        "integrator.launch.py",
        *(f"{name}:={value}" for name, value in scenario.launch_arguments().items()),
        *(f"params_file:={overrides}", "autostart:=false", "transport_profile:=shared_memory", "log_level:=warn"),
    )
    client = scenario.client()
    try:
        assert client.state() == "unconfigured"
        expected = {**scenario.parameters(), "dt": 0.125, "device": "cpu", "autostart": False}
        assert client.parameters(list(expected)) == expected
        environment = Path(f"/proc/{process.node_pid()}/environ").read_bytes().decode().split("\0")
        profile = CONFIG / "fastdds_shared_memory.xml"
        assert any(line.endswith(f"_DEFAULT_PROFILES_FILE={profile}") for line in environment)
    finally:
        client.close()
    process.interrupt()
    assert "[INFO] [left.traj_integrator]" not in process.output


def test_demo_carries_the_exit_status_of_a_demo_that_fails(launch):
    process = launch("demo.launch.py", "data:=/nowhere.db3")
    assert process.wait() == 1
    assert "the demo ended with exit code 2" in process.output, process.output
    assert "/nowhere.db3" in process.output


def test_the_demo_does_the_main_job_and_ends_the_launch(launch, tmp_path):
    process = launch("demo.launch.py", f"out:={tmp_path}", "device:=cpu", "namespace:=arm")
    assert process.wait(150.0) == 0, process.output
    assert len(re.findall(r"process started with pid", process.output)) == 3
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["lost"], report["failures"]) == (0, [])
    assert (tmp_path / "trajectories.png").is_file() and (tmp_path / "optimizer.png").is_file()


def test_a_killed_node_comes_back_and_serves_the_clients_that_were_there(launch):
    scenario = SCENARIOS[0]
    process = launch("integrator.launch.py", "device:=cpu", "respawn:=true")
    client = scenario.client()
    try:
        client.wait_until_active()
        first = process.node_pid()
        os.kill(first, signal.SIGKILL)
        process.wait_for(r"(?s)process started with pid .*process started with pid ")
        client.wait_until_active()
        assert process.node_pid() != first
        integrates_for_a_caller(client, scenario)
    finally:
        client.close()
    process.interrupt()
