"""Transport profiles are named to the Fast DDS that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from traj_integrator_ros.wire.fast_dds import PROFILE_VARIABLES, profile_variable

FAST_DDS_3, FAST_DDS_2 = PROFILE_VARIABLES


def prefix(folder: Path, library: str, lib: str = "lib") -> str:
    (folder / lib).mkdir(parents=True)
    (folder / lib / library).touch()
    return str(folder)


@pytest.mark.parametrize(
    ("library", "expected"), [("libfastdds.so.3.2.2", FAST_DDS_3), ("libfastrtps.so.2.14.5", FAST_DDS_2)]
)
@pytest.mark.parametrize("lib", ["lib", "lib/x86_64-linux-gnu"])
def test_the_library_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library, expected, lib) -> None:
    monkeypatch.setenv("AMENT_PREFIX_PATH", prefix(tmp_path / "ros", library, lib))
    monkeypatch.setenv("ROS_DISTRO", "a_name_says_nothing")
    assert profile_variable() == expected


def test_the_first_prefix_that_has_one_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overlay, ros = tmp_path / "overlay", prefix(tmp_path / "ros", "libfastrtps.so")
    below = prefix(tmp_path / "below", "libfastdds.so")
    overlay.mkdir()
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{overlay}:{ros}:{below}")
    assert profile_variable() == FAST_DDS_2


def test_wheels_in_the_environment_of_python_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    monkeypatch.setattr("sys.prefix", prefix(tmp_path / "venv", "libfastrtps.so.2.14"))
    assert profile_variable() == FAST_DDS_2
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    assert profile_variable() == FAST_DDS_3, "the newer one, where none is found"
