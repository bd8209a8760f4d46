"""Every case that once made an arm jump, run away or stand still, with the node's processing on a simulated clock."""

from __future__ import annotations

import pytest

from soak.streams.cases import all_cases, run_case
from soak.streams.model import Models

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [case.name for case in all_cases()])  # not the cases: they keep objects of ruckig
def test_case(models: Models, name: str) -> None:
    (case,) = (case for case in all_cases() if case.name == name)
    _, found = run_case(case, models)
    assert not found, "\n".join(found)
