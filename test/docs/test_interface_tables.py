"""The tables of docs/node.md say what the code declares and what a running node offers, as do the layouts."""

from __future__ import annotations

import importlib.util
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest
import yaml
from documentation_pages import ROOT, section, table

from traj_integrator_ros.parameters.table import PARAMETERS, ParameterSpec
from traj_integrator_ros.requests.rejection import RejectionReason

if TYPE_CHECKING:
    from kit.participant import Participant

NODE_PAGE = ROOT / "docs" / "node.md"
NODE = "/traj_integrator"
WITHIN_S = 30.0
STATUS = "/traj_integrator: integrator"
FIELDS = r"(position|velocity|effort|points\.(positions|velocities|accelerations)|status\.values\.value)"


def code(text: object) -> str:
    return f"`{text}`"


def shown_default(spec: ParameterSpec) -> str:
    if isinstance(spec.default, bool):
        return str(spec.default).lower()
    return f"[{', '.join(map(str, spec.default))}]" if isinstance(spec.default, list) else str(spec.default)


def shown_range(spec: ParameterSpec) -> str:
    if spec.range is not None:
        return " to ".join(f"{bound:g}" for bound in spec.range)
    return ", ".join(code(choice) for choice in spec.choices)


def test_the_parameter_table_is_what_the_node_declares() -> None:
    expected = [
        [code(it.name), code(shown_default(it)), it.unit, shown_range(it), it.changeable.value, it.description]
        for it in PARAMETERS
    ]
    lines = [line for line in section(NODE_PAGE, "Parameters").splitlines() if line.startswith("|")]
    wanted = ["|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in expected]
    # On failure, this prints the table for the page.
    assert lines[2 : 2 + len(wanted)] == wanted, "\n".join(wanted)


def test_every_reason_for_a_rejection_is_explained() -> None:
    rows = table(NODE_PAGE, "How bad input is handled")
    assert [row[0] for row in rows] == [code(reason.value) for reason in RejectionReason]
    assert all(len(row[1]) > 5 for row in rows)


@pytest.fixture(scope="module")
def observer(panda_node: None) -> Iterator[Participant]:
    """A participant that looks at the node for the Panda."""
    pytest.importorskip("rclpy", reason="rclpy cannot be imported")
    from kit.participant import Participant

    participant = Participant(name="observer")
    yield participant
    participant.close()


@pytest.mark.ros
def test_topics_and_services_are_those_of_the_table(observer: Participant) -> None:
    from rclpy.action import get_action_server_names_and_types_by_node

    node, own_name = observer.node, NODE.strip("/")
    entities = {
        "in": node.get_subscriber_names_and_types_by_node,
        "out": node.get_publisher_names_and_types_by_node,
        "service": node.get_service_names_and_types_by_node,
        "action": partial(get_action_server_names_and_types_by_node, node),
    }

    def offered() -> dict[tuple[str, str], str]:
        # Before the node is discovered, the other calls raise errors or return nothing.
        if own_name not in [name for name, _ in node.get_node_names_and_namespaces()]:
            return {}
        found = [(kind, *pair) for kind, find in entities.items() for pair in find(own_name, "/")]
        # Without the topics and services that make up an action.
        return {(name, kind): types[0] for kind, name, types in found if "/_action/" not in name}

    offers = _installed(table(NODE_PAGE, "Topics and services"))
    expected = {(_full_name(name), kind): _full_type(type_name, kind) for name, type_name, kind, *_ in offers}
    observer.wait_for(lambda: expected.items() <= offered().items(), f"{expected} in {offered()}", WITHIN_S)
    ours, others = ("traj_integrator_interfaces",), ("trajectory", "sensor", "std", "diagnostic", "control")
    packages = ours + tuple(f"{name}_msgs" for name in others)
    own = {key: value for key, value in offered().items() if value.split("/")[0] in packages}
    assert own == expected


@pytest.mark.ros
def test_qualities_of_service_are_those_of_the_table(observer: Participant) -> None:
    rows, topics = table(NODE_PAGE, "Quality of service"), table(NODE_PAGE, "Topics and services")
    names, expected = [], []
    absent = {row[0] for row in topics if row not in _installed(topics)}
    for topic, kind, reliability, durability, depth in rows:
        if topic in absent:
            continue
        entity = {"in": "subscription", "out": "publisher"}[kind]
        for policy, value in (("reliability", reliability), ("durability", durability), ("depth", int(depth))):
            names.append(f"qos_overrides.{_full_name(topic)}.{entity}.{policy}")
            expected.append(value.replace(" ", "_") if isinstance(value, str) else value)
    assert observer.parameters(names) == dict(zip(names, expected, strict=True))


@pytest.mark.ros
def test_the_diagnostics_have_the_keys_of_the_table(observer: Participant) -> None:
    from diagnostic_msgs.msg import DiagnosticArray

    received: list[DiagnosticArray] = []
    observer.subscribe(DiagnosticArray, "/diagnostics", received.append)
    observer.wait_for(lambda: received, "a message on /diagnostics", WITHIN_S)
    (status,) = received[-1].status
    keys = [entry.key for entry in status.values if "." not in entry.key]
    rows = table(NODE_PAGE, "Diagnostics")
    assert [row[0].strip("`") for row in rows if "<" not in row[0]] == keys
    prefixes = {entry.key.split(".")[0] for entry in status.values if "." in entry.key}
    assert {row[0].strip("`").split(".")[0] for row in rows if "<" in row[0]} == prefixes


def test_what_layouts_show_is_there() -> None:
    keys = {row[0].strip("`") for row in table(ROOT / "docs" / "node.md", "Diagnostics")}
    robot = yaml.safe_load((ROOT / "config" / "franka.yaml").read_text(encoding="utf-8"))["/**"]["ros__parameters"]
    layout = json.loads((ROOT / "config" / "foxglove_layout.json").read_text(encoding="utf-8"))
    paths = [path["value"] for panel in layout["configById"].values() for path in panel.get("paths", [])]
    curves = ElementTree.parse(ROOT / "config" / "plotjuggler_layout.xml").getroot().iter("curve")
    names = [curve.get("name") for curve in curves]
    assert len(paths) > 20 < len(names)
    for path in paths:
        topic, *fields = re.sub(r"\[[\d:]*\]|\{[^}]*\}", "", path).split(".")
        assert topic in ("/joint_states", "/traj_integrator/joint_trajectory", "/diagnostics"), path
        assert re.fullmatch(FIELDS, ".".join(fields)), path
        for name, value in re.findall(r'\{(\w+)=="([^"]*)"\}', path):
            assert value in {"name": {STATUS}, "key": keys}[name], path
    for name in names:
        if name.startswith("/diagnostics/"):
            device, key = name.removeprefix("/diagnostics/").split(f"/{STATUS}/")
            assert device in ("cpu", "cuda:0") and key in keys, name
        elif name.startswith("/joint_states/"):
            _, _, joint, field = name.split("/")
            assert joint in robot["joint_names"] and re.fullmatch(FIELDS, field), name
        else:
            points = re.fullmatch(r"/traj_integrator/joint_trajectory/points\[\d+\]/(\w+)\[\d+\]", name)
            assert re.fullmatch(FIELDS, f"points.{points[1]}"), name


def _installed(rows: list[list[str]]) -> list[list[str]]:
    """Topics of the table whose messages this ROS 2 has."""
    return [row for row in rows if importlib.util.find_spec(row[1].strip("`").partition("/")[0]) is not None]


def _full_name(name: str) -> str:
    name = name.strip("`")
    return name.replace("~", NODE) if name.startswith("~") else f"/{name.lstrip('/')}"


def _full_type(name: str, kind: str) -> str:
    package, message = name.strip("`").split("/")
    return f"{package}/{ {'service': 'srv', 'action': 'action'}.get(kind, 'msg') }/{message}"
