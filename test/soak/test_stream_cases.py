"""Every case that once made an arm jump, run away or stand still, with the node's processing on a simulated clock."""

from __future__ import annotations

import pytest

from soak.streams.cases import Case, all_cases, run_case
from soak.streams.model import ModelsAbsent, load_models

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_case(case: Case) -> None:
    try:
        models = load_models()
    except ModelsAbsent as absent:
        pytest.skip(str(absent))
    _, found = run_case(case, models)
    assert not found, "\n".join(found)
