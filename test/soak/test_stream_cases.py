"""Every case that once made an arm jump, run away or stand still, with the node's processing on a simulated clock."""

from __future__ import annotations

import pytest

from soak.streams.cases import all_cases, run_case
from soak.streams.model import ModelsAbsent, load_models

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [case.name for case in all_cases()])  # not the cases: they keep objects of ruckig
def test_case(name: str) -> None:
    try:
        models = load_models()
    except ModelsAbsent as absent:
        pytest.skip(str(absent))
    (case,) = (case for case in all_cases() if case.name == name)
    _, found = run_case(case, models)
    assert not found, "\n".join(found)
