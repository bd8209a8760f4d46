"""The layouts for Foxglove and PlotJuggler parse, and name only joints and keys of diagnostics that there are."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree

import yaml
from documentation_pages import ROOT, table

STATUS = "/traj_integrator: integrator"
FIELDS = r"(position|velocity|effort|points\.(positions|velocities|accelerations)|status\.values\.value)"


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
