"""The layouts for Foxglove and PlotJuggler parse and name only what the node, its topics and messages have."""

from __future__ import annotations

import importlib
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
import yaml
from documentation_pages import ROOT, table

pytestmark = pytest.mark.ros

CONFIG = ROOT / "config"
STATUS = "/traj_integrator: integrator"
JOINT_FIELDS = {"position", "velocity", "effort"}


@pytest.fixture(scope="module")
def topics() -> dict[str, type]:
    from diagnostic_msgs.msg import DiagnosticArray
    from sensor_msgs.msg import JointState
    from trajectory_msgs.msg import JointTrajectory

    return {
        "/joint_states": JointState,
        "/traj_integrator/joint_trajectory": JointTrajectory,
        "/diagnostics": DiagnosticArray,
    }


@pytest.fixture(scope="module")
def keys() -> set[str]:
    """Keys of a status of the node, by the table that test_interface_tables.py compares with a node."""
    return {row[0].strip("`") for row in table(ROOT / "docs" / "node.md", "Diagnostics")}


def follow(message: type, fields: list[str]) -> str:
    """The type at the end of a path of fields; AssertionError where one does not exist."""
    kind = ""
    for field in fields:
        types = message.get_fields_and_field_types()
        assert field in types, f"{message.__name__} has no field {field}"
        kind = re.sub(r"sequence<([^,>]+).*>|(.*)\[\d*\]", r"\1\2", types[field])
        if "/" in kind:
            package, name = kind.split("/")
            message = getattr(importlib.import_module(f"{package}.msg"), name)
    return kind


def test_the_paths_of_foxglove_lead_to_fields(topics: dict[str, type], keys: set[str]) -> None:
    layout = json.loads((CONFIG / "foxglove_layout.json").read_text(encoding="utf-8"))
    paths = [path["value"] for panel in layout["configById"].values() for path in panel.get("paths", [])]
    assert paths
    for path in paths:
        topic, *fields = re.sub(r"\[[\d:]*\]|\{[^}]*\}", "", path).split(".")
        assert follow(topics[topic], fields) in ("double", "float", "string"), path
        for name, value in re.findall(r'\{(\w+)=="([^"]*)"\}', path):
            assert value in {"name": {STATUS}, "key": keys}[name], path


def test_the_curves_of_plotjuggler_lead_to_fields(topics: dict[str, type], keys: set[str]) -> None:
    layout = ElementTree.parse(CONFIG / "plotjuggler_layout.xml").getroot()
    parameters = yaml.safe_load((CONFIG / "franka.yaml").read_text(encoding="utf-8"))["/**"]["ros__parameters"]
    curves = [curve.get("name") for curve in layout.iter("curve")]
    assert curves
    for curve in curves:
        topic = next(name for name in topics if curve.startswith(f"{name}/"))
        rest = curve[len(topic) + 1 :]
        if topic == "/joint_states":  # by the names of the joints
            joint, field = rest.split("/")
            assert joint in parameters["joint_names"] and field in JOINT_FIELDS, curve
        elif topic == "/diagnostics":  # hardware id, name of the status, key
            device, key = rest.split(f"/{STATUS}/")
            assert device in ("cpu", "cuda:0") and key in keys, curve
        else:
            assert follow(topics[topic], re.sub(r"\[\d+\]", "", rest).split("/")) == "double", curve
