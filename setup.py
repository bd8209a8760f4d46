"""Package of traj_integrator_ros for pip and for colcon (ament_python)."""

from glob import glob
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.develop import develop

PACKAGE = "traj_integrator_ros"
HERE = Path(__file__).resolve().parent
# The counterpart of [install] install_scripts in setup.cfg, for setuptools that know it (before 80).
DEVELOP_KNOWS_SCRIPT_DIR = any(option.startswith("script-dir") for option, *_ in develop.user_options)

setup(
    name=PACKAGE,
    version="0.1.0",
    description="Differentiable integration of batched joint trajectories: PyTorch kernels and a ROS 2 node",
    long_description=(HERE / "README.md").read_text(encoding="utf-8") if (HERE / "README.md").is_file() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    maintainer="traj_integrator_ros maintainers",
    maintainer_email="maintainers@users.noreply.github.com",
    python_requires=">=3.10",
    # traj_integrator_ros/kernels is a link to kernels/: found, copied and linked like any other sub-package.
    packages=find_packages(include=[PACKAGE, f"{PACKAGE}.*"]),
    package_data={
        PACKAGE: ["py.typed"],
        f"{PACKAGE}.kernels": ["native/*", "native/*/*", "native/*/*/*"],  # C++ sources, compiled where they are used
    },
    # The kernels and the engine need no more. rclpy and the messages come with ROS 2 (package.xml).
    install_requires=["torch>=2.6", "numpy"],
    extras_require={
        "demo": ["matplotlib", "PyYAML", "rich", "rosbags", "ruckig"],
        "test": ["hypothesis", "pytest", "pytest-timeout", "pytest-xdist", "PyYAML", "scipy"],
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
        (f"share/{PACKAGE}/launch", sorted(glob("launch/*.launch.py"))),
        (f"share/{PACKAGE}/config", sorted(glob("config/*.yaml") + glob("config/*.xml"))),
    ],
    entry_points={
        "console_scripts": [
            f"integrator_node = {PACKAGE}.main:main",
            f"demo = {PACKAGE}.demo.main:main",
        ],
    },
    options={"develop": {"script_dir": f"$base/lib/{PACKAGE}"}} if DEVELOP_KNOWS_SCRIPT_DIR else {},
    zip_safe=True,
)
