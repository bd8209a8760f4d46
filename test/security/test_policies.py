"""config/security grants exactly the running node's entities: a new topic or service must be granted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from policies import Grant, action
from preloaded_process import PreloadedNode

ENCLAVE = "/traj_integrator"


@pytest.fixture
def running(tmp_path: Path, project_root: Path) -> Iterator[set[Grant]]:
    """Topics and services of a running node with an optional feature: simulated time."""
    pytest.importorskip("rclpy", reason="rclpy cannot be imported: no ROS 2")
    from kit.participant import START_TIMEOUT_S, Participant

    file = tmp_path / "parameters.yaml"
    robot = (project_root / "config" / "franka.yaml").read_text(encoding="utf-8")
    file.write_text(f"{robot}    use_sim_time: true\n", encoding="utf-8")
    process = PreloadedNode(tmp_path, file)
    participant = Participant(name="test_policies")
    participant.check, node = process.check, participant.node
    try:
        participant.wait_for(
            lambda: any(name.endswith("compute_gradient") for _, name in _grants_of(node)), "the node", START_TIMEOUT_S
        )
        # Entities that a lifecycle node makes after its services are found a moment later.
        found, before = _grants_of(node), set()
        while found != before:
            time.sleep(1.0)
            found, before = _grants_of(node), found
        yield found
    finally:
        participant.close()
        process.stop()


def _grants_of(node: object) -> set[Grant]:
    """Topics and services of the node traj_integrator, as the ROS graph tells."""
    kinds = {
        "publish": node.get_publisher_names_and_types_by_node,
        "subscribe": node.get_subscriber_names_and_types_by_node,
        "reply": node.get_service_names_and_types_by_node,
        "request": node.get_client_names_and_types_by_node,
    }
    if ("traj_integrator", "/") not in node.get_node_names_and_namespaces():
        return set()
    return {(kind, name) for kind, ask in kinds.items() for name, _ in ask("traj_integrator", "/")}


@pytest.mark.ros
def test_the_policy_grants_what_the_running_node_has_and_nothing_else(
    running: set[Grant], granted: dict[str, set[Grant]]
) -> None:
    # Only where control_msgs can be imported:
    running |= {("subscribe", "/controller_state"), *action(f"{ENCLAVE}/follow_joint_trajectory")}
    assert granted[ENCLAVE] - running == set(), "granted without need"
    assert running - granted[ENCLAVE] == set(), "needed and not granted"


def test_examples_may_do_what_their_counterpart_grants(granted: dict[str, set[Grant]]) -> None:
    node = granted[ENCLAVE]
    assert granted.keys() == {ENCLAVE, "/simulated_robot", "/planner", "/optimizer"}
    for enclave in granted.keys() - {ENCLAVE}:
        own = {grant for grant in granted[enclave] if "/traj_integrator/" in grant[1] or grant[1] == "/joint_states"}
        assert own, enclave
        for kind, name in own:
            counterpart = {"publish": "subscribe", "subscribe": "publish", "request": "reply"}[kind]
            others = {grant for path, grants in granted.items() if path != enclave for grant in grants}
            assert (counterpart, name) in others, (enclave, kind, name)
    assert ("publish", "/joint_states") not in granted["/planner"] | node


def test_no_name_is_a_pattern(granted: dict[str, set[Grant]]) -> None:
    assert not any(sign in name for grants in granted.values() for _, name in grants for sign in "*?[")
