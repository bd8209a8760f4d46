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


def test_foxglove_places_every_panel_once_and_its_paths_lead_to_fields(topics: dict[str, type], keys: set[str]) -> None:
    layout = json.loads((CONFIG / "foxglove_layout.json").read_text(encoding="utf-8"))
    placed = re.findall(r'"(\w+![^"]*)"', json.dumps(layout["layout"]))
    assert sorted(placed) == sorted(layout["configById"])
    assert {panel.partition("!")[0] for panel in placed} == {"Plot", "DiagnosticSummary", "DiagnosticStatusPanel"}
    paths = [path["value"] for panel in layout["configById"].values() for path in panel.get("paths", [])]
    assert paths
    for path in paths:
        topic, *fields = re.sub(r"\[[\d:]*\]|\{[^}]*\}", "", path).split(".")
        assert follow(topics[topic], fields) in ("double", "float", "string"), path
        for name, value in re.findall(r'\{(\w+)=="([^"]*)"\}', path):
            assert value in {"name": {STATUS}, "key": keys}[name], path
    for panel in layout["configById"].values():
        assert panel.get("topicToRender", "/diagnostics") in topics
        assert panel.get("selectedName", STATUS) == STATUS


def test_plotjuggler_is_complete_and_its_curves_lead_to_fields(topics: dict[str, type], keys: set[str]) -> None:
    layout = ElementTree.parse(CONFIG / "plotjuggler_layout.xml").getroot()
    assert layout.tag == "root" and layout.find("tabbed_widget").get("name") == "Main Window"
    for splitter in layout.iter("DockSplitter"):
        areas = splitter.findall("DockArea")
        assert int(splitter.get("count")) == len(splitter.get("sizes").split(";")) == len(areas) > 0
        assert all(len(area.findall("plot")) == 1 for area in areas)
    for plugin in layout.iter("plugin"):
        assert set(plugin.find("selected_topics").get("value").split(";")) == set(topics)
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
