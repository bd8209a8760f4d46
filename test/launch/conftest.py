"""Assertions of the scenarios explain themselves as those of a test module do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("scenarios")
