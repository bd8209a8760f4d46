"""The lifecycle, over its services."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lifecycle_msgs.msg import TransitionEvent
from node_fixtures import JOINTS, PARAMETERS, SEQUENCE, TRANSITIONS, ClientFactory, NodeFactory, NodeServer
from preloaded_process import PreloadedNode
from ros_client import RosClient

from kit.node_process import NodeProcess
from traj_integrator_interfaces.srv import Stop

pytestmark = pytest.mark.ros
STEPS_TO = {"unconfigured": ("deactivate", "cleanup"), "active": ("configure", "activate")}


@pytest.fixture(scope="module")
def managed_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that waits for transitions; its namespace keeps it apart from the nodes of single tests."""
    parameters = {**PARAMETERS, "autostart": False}
    process = PreloadedNode(tmp_path_factory.mktemp("managed"), parameters, ["-r", "__ns:=/managed"])
    yield process
    process.stop()


@pytest.fixture
def managed(managed_node: NodeProcess, connect: ClientFactory) -> RosClient:
    """A client of that node, which is unconfigured."""
    client = connect("/managed/traj_integrator")
    bring_to("unconfigured", client)
    return client


def bring_to(state: str, client: RosClient) -> None:
    """Make the transitions to unconfigured or active from any state; others are refused."""
    for transition in STEPS_TO[state]:
        client.change_state(transition)
    assert client.state() == state


def test_transitions_are_told_as_events(managed: RosClient) -> None:
    """Launch files wait for these events."""
    told: list[str] = []
    topic = f"{managed.node_name}/transition_event"
    managed.subscribe(TransitionEvent, topic, lambda event, _: told.append(event.goal_state.label))
    managed.wait_for(lambda: managed.node.count_publishers(topic), "the publisher of events")
    managed.spin(0.3)
    bring_to("active", managed)
    managed.wait_for(lambda: told[-1:] == ["active"], "the event")
    assert told[-4:] == ["configuring", "inactive", "activating", "active"]
    bring_to("unconfigured", managed)


def test_a_configure_that_fails_says_why_in_one_line_and_can_be_repaired(
    start_node: NodeFactory, connect: ClientFactory
) -> None:
    process = start_node({"limits.velocity": [1.0]})
    client = connect()
    process.wait_for_output("configure failed")
    line = next(line for line in process.output.splitlines() if "configure failed" in line)
    assert "limits.velocity: expected 0 or 3 values, one for each joint, got 1" in line
    assert "Traceback" not in process.output
    assert client.state() == "unconfigured"
    status = client.status()
    assert status.level == status.ERROR
    assert "limits.velocity" in status.message
    assert not client.change_state("configure")
    assert client.set_parameters(limits__velocity=[1.0, 1.0, 1.0]) == [(True, "")]
    assert client.change_state("configure") and client.change_state("activate"), process.output
    assert client.status().level == status.OK


@pytest.mark.parametrize(
    ("name", "value"),
    [("qos_overrides./joint_states.subscription.reliability", "hopeful"), ("constraints.joint_a.goal", -0.1)],
)
def test_what_only_a_file_can_have_wrong_fails_configure(start_node: NodeFactory, name: str, value: object) -> None:
    process = start_node({name: value})
    process.wait_for_output("configure failed")
    assert (value if value == "hopeful" else name) in process.output
    assert "Traceback" not in process.output and process.is_running()


def test_an_impossible_configuration_is_reported_when_it_is_requested(
    managed_node: NodeProcess, managed: RosClient
) -> None:
    assert not managed.node.count_publishers(f"{managed.node_name}/trajectory_batch"), "its topics come with configure"
    for name, wrong, right, said in (
        ("device", "cuda:99", "cpu", "cuda:99"),
        ("joint_names", [], list(JOINTS), "joint_names: expected the robot's joints, got none"),
        ("warmup", ["65x1"], ["1x4"], "warmup: expected at least 1x1 and at most max_batch x max_horizon"),
    ):
        assert managed.set_parameters(**{name: wrong}) == [(True, "")]
        assert not managed.change_state("configure")
        assert said in managed_node.output and "Traceback" not in managed_node.output
        assert managed.state() == "unconfigured"
        assert managed.set_parameters(**{name: right}) == [(True, "")]
    bring_to("active", managed)


def test_shutdown_is_possible_from_every_state(start_node: NodeFactory, connect: ClientFactory) -> None:
    steps_in = {"/a": [], "/b": ["configure"], "/c": ["configure", "activate"]}
    for namespace in steps_in:
        start_node({"autostart": False}, ["-r", f"__ns:={namespace}"])
    for namespace, steps in steps_in.items():
        client = connect(f"{namespace}/traj_integrator")
        for step in steps:
            assert client.change_state(step)
        assert client.change_state("shutdown")
        assert client.state() == "finalized"


def test_repeated_cleanup_and_configure_do_not_grow(managed_node: NodeProcess, managed: RosClient) -> None:
    def cycle(times: int) -> int:
        for _ in range(times):
            for transition in TRANSITIONS:
                assert managed.change_state(transition)
        return managed_node.memory_bytes("VmRSS")

    before = cycle(5)
    after = cycle(15)
    assert after < before * 1.05, (before, after)
    bring_to("active", managed)
    managed.wait_until_connected()


def test_qualities_of_service_are_parameters(serve: NodeServer) -> None:
    _, client = serve({
        "qos_overrides./joint_states.subscription.reliability": "reliable",
        "qos_overrides./traj_integrator/joint_trajectory.publisher.durability": "transient_local",
        "qos_overrides./traj_integrator/action_sequence.subscription.reliability": "best_effort",
    })  # fmt: skip
    [states] = client.node.get_subscriptions_info_by_topic("/joint_states")
    [output] = client.node.get_publishers_info_by_topic("/traj_integrator/joint_trajectory")
    [actions] = client.node.get_subscriptions_info_by_topic("/traj_integrator/action_sequence")
    assert states.qos_profile.reliability.name == "RELIABLE"
    assert output.qos_profile.durability.name == "TRANSIENT_LOCAL"
    assert actions.qos_profile.reliability.name == "BEST_EFFORT"
    with client.periodically(0.2, lambda: client.sequences.publish(SEQUENCE)):  # by best effort, some may be lost
        client.wait_for(lambda: client.trajectories, "an answer")


def test_a_node_may_begin_held(serve: NodeServer) -> None:
    _, client = serve({"publish.start_held": True})
    client.settle_state([0.0, 0.0, 0.0])
    client.sequences.publish(SEQUENCE)
    client.wait_for(lambda: client.counts()["rejected.stopped"] == "1", "a sequence refused because it is held")
    assert client.call(Stop, "stop", Stop.Request()).success
    client.answer(SEQUENCE)
