"""DDS stays on this machine, in a domain of its own, unless the user wants it otherwise."""

from __future__ import annotations

import os

import pytest

from traj_integrator_ros.traffic import local_dds


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in local_dds.PROFILE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROS_DOMAIN_ID", "42")
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
    monkeypatch.setenv(local_dds.PROFILE_VARIABLES[0], "/my/profile.xml")
    local_dds.stay_local()
    assert os.environ["ROS_DOMAIN_ID"] == "42" and os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "SUBNET"
    assert os.environ[local_dds.PROFILE_VARIABLES[0]] == "/my/profile.xml"
    assert local_dds.PROFILE_VARIABLES[1] not in os.environ


def test_an_isolated_process_gets_a_domain_of_its_own_in_any_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROS_DOMAIN_ID", "ROS_AUTOMATIC_DISCOVERY_RANGE", *local_dds.PROFILE_VARIABLES):
        monkeypatch.setenv(name, "0")
    local_dds.isolate(profile=None)
    assert os.environ["ROS_DOMAIN_ID"] != "0" and os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    assert not any(name in os.environ for name in local_dds.PROFILE_VARIABLES)
    local_dds.isolate()
    (profile,) = (os.environ[name] for name in local_dds.PROFILE_VARIABLES if name in os.environ)
    assert profile.endswith("fastdds_localhost.xml")
