"""DDS stays on this machine, in a domain that only one process has claimed, unless the user has set another."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kit import local_dds

CLAIM = "from kit.local_dds import claim_domain; print(claim_domain(), flush=True); input()"


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


def test_processes_get_different_domains_and_give_them_back_when_they_end(
    project_root, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = [sys.executable, "-c", CLAIM]
    claimants = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=project_root)
        for _ in range(2)
    ]
    domains = [int(claimant.stdout.readline()) for claimant in claimants]
    assert len(set(domains)) == 2
    locks = [tmp_path / "traj_integrator_ros_domains" / f"{domain}.lock" for domain in domains]
    assert [local_dds._try_to_lock(lock) for lock in locks] == [None, None]
    for claimant in claimants:
        claimant.communicate("\n")
        assert claimant.returncode == 0
    assert None not in [local_dds._try_to_lock(lock) for lock in locks]
