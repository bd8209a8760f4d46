"""The machine code of Triton kernels: no float64 instructions for narrower data, and predicted speeds.

In processes of their own, because compiling wants TRITON_INTERPRET unset.
"""

from __future__ import annotations

import importlib.util
import re

import pytest
from offline_programs import printed

WAYS = ("forward", "vjp")
CHAIN = ("clique", "velocity", "acceleration_zoh", "jerk")
SHARES = {**dict.fromkeys(CHAIN, 0.8), "clique_central": 0.6, "bspline": 0.6}

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed"),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def predicted(project_root) -> list[dict[str, object]]:
    """Predictions of every float32 kernel on all devices: sm_80, 87, 89, 90, 100 and 110."""
    return printed("roofline", "--json", root=project_root)


def test_kernels_are_predicted_to_be_near_the_memory_limit(predicted):
    assert {one["launch"].split()[0] for one in predicted} == set(SHARES)
    assert len({(one["launch"], one["device"]) for one in predicted}) == len(predicted) == 2 * 7 * len(SHARES)
    missed = [one for one in predicted if one["share"] < SHARES[one["launch"].split()[0]]]
    assert not missed, [f"{one['launch']}, {one['device']}: {one['share']:.2f}, {one['limit']}" for one in missed]


def test_the_page_shows_the_shares_that_are_predicted(predicted, project_root):
    page = (project_root / "docs" / "performance.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| (central|cubic spline) \| (.*) \|$", page, re.M))
    for title, name in (("central", "clique_central"), ("cubic spline", "bspline")):
        ways = [[one["share"] for one in predicted if one["launch"].startswith(f"{name} {way}")] for way in WAYS]
        shares = [" / ".join(f"{share:.2f}".replace("1.00", "1") for share in both) for both in zip(*ways, strict=True)]
        assert re.sub(r" \(\S+\)", "", shown[title]) == " | ".join(shares)


def test_kernels_of_float32_have_no_float64_instruction(predicted):
    assert not [(one["launch"], one["device"], one["float64"]) for one in predicted if one["float64"]]


def test_kernels_of_float16_have_no_float64_instruction(project_root):
    pattern = "^(velocity|clique_central) .*float16 D7"
    compiled = printed("offline", "--all", "--no-amd", "--sm", "120", "--", pattern, root=project_root)
    assert {str(row["architecture"]) for row in compiled} == {"120"}
    assert not [row for row in compiled if row["float64"]]
