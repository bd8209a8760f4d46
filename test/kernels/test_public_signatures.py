"""What programs, exported models and C++ policies call stays as it was released."""

from __future__ import annotations

from pathlib import Path

from public_signatures import public_signatures

from traj_integrator_ros.kernels import MAPS

FROZEN = Path(__file__).with_name("public_signatures.txt")


def test_operator_schemas_and_public_functions_are_those_that_were_frozen() -> None:
    """Whoever changes one raises the version as docs/compatibility.md says, and freezes them anew."""
    assert list(public_signatures()) == FROZEN.read_text(encoding="utf-8").splitlines()


def test_every_map_has_its_two_operators_among_them() -> None:
    frozen = FROZEN.read_text(encoding="utf-8")
    for kernel in MAPS.values():
        for direction in ("forward", "vjp"):
            assert f"traj_integrator::{kernel.operator.name}_{direction}(" in frozen
