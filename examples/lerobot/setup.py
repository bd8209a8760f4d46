"""The page of a package index: README.md without links into the repository, which lead nowhere there."""

import re
from pathlib import Path

from setuptools import setup

readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
setup(
    long_description=re.sub(r"\[([^\]]*)\]\((?![a-z]+:|#)[^)]+\)", r"\1", readme),
    long_description_content_type="text/markdown",
)
