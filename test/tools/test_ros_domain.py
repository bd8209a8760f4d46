"""A domain is claimed by one process only, and one with traffic is not claimed."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from traj_integrator_ros.tools import ros_domain

CLAIM = "from traj_integrator_ros.tools.ros_domain import claim_domain; print(claim_domain(), flush=True); input()"


@pytest.fixture
def two_domains(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A machine with two domains and locks of its own."""
    monkeypatch.setattr(ros_domain, "DOMAINS", (62, 63))
    monkeypatch.setattr(ros_domain, "_locks", [])
    monkeypatch.setattr(ros_domain, "_is_silent", lambda domain: True)
    monkeypatch.setattr(ros_domain.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delenv("ROS_DOMAIN_ID", raising=False)


def test_each_claim_gets_another_domain_until_none_is_left(two_domains: None) -> None:
    assert {ros_domain.claim_domain(), ros_domain.claim_domain()} == {62, 63}
    with pytest.raises(OSError, match="all 2 ROS domains are claimed"):
        ros_domain.claim_domain()


def test_the_domain_of_the_shell_is_left_to_its_user(monkeypatch: pytest.MonkeyPatch, two_domains: None) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "62")
    assert ros_domain.claim_domain() == 63
    with pytest.raises(OSError, match="all 1 ROS domains are claimed"):
        ros_domain.claim_domain()


def test_a_domain_with_traffic_is_not_claimed(monkeypatch: pytest.MonkeyPatch, two_domains: None) -> None:
    monkeypatch.undo()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as node:
        for domain in ros_domain.DOMAINS:
            try:
                node.bind(("127.0.0.1", 7410 + 250 * domain + 2))
                break
            except OSError:  # there is traffic
                continue
        assert not ros_domain._is_silent(domain)


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
    assert [ros_domain._try_to_lock(lock) for lock in locks] == [None, None]
    for claimant in claimants:
        claimant.communicate("\n")
        assert claimant.returncode == 0
    assert None not in [ros_domain._try_to_lock(lock) for lock in locks]
