"""Package of traj_integrator_ros for pip and for colcon (ament_python)."""

import os
import re
import shlex
import shutil
import sys
import sysconfig
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.develop import develop

PACKAGE = "traj_integrator_ros"
HERE = Path(__file__).resolve().parent
MANIFEST = ElementTree.parse(HERE / "package.xml")
TOOLS = ("check_trajectory", "integrate", "monitor", "plot_trajectory", "replay", "retime")
EXECUTABLES = {
    "integrator_node": f"{PACKAGE}.node.main",
    "demo": f"{PACKAGE}.demo.main",
    **{tool: f"{PACKAGE}.tools.{tool}" for tool in TOOLS},
}
NATIVE = f"{PACKAGE}/kernels/native"  # through the link, because an sdist has no other path to it
_POLYNOMIALS = "shared/polynomials"
_SHARED = ("instruction_set", "parallel", _POLYNOMIALS)
NATIVE_PARTS = (
    ("kernels.native._loops", "kernels/native"),
    ("kernels.retime._native", "kernels/retime", *(f"kernels/native/src/{name}.cpp" for name in _SHARED)),
    ("execution._native", "execution", f"kernels/native/src/{_POLYNOMIALS}.cpp"),
)
"""Modules in C++, the folder of their `src/`, and the other sources they need."""
NODE = ["PyYAML", "ruckig>=0.14"]
"""Libraries of the node alone: to read files of parameters and limits, and to join plans within limits of jerk."""
FOR_ROS2_RUN = not {"install", "develop"}.isdisjoint(sys.argv)
"""True if executables go to lib/<package>, as with colcon, or to a bin that all packages of an environment share."""
# The counterpart of [install] install_scripts in setup.cfg, for setuptools that know it (before 80).
DEVELOP_KNOWS_SCRIPT_DIR = any(option.startswith("script-dir") for option, *_ in develop.user_options)


def compiled_parts() -> dict[str, object]:
    """Arguments of setup() that build the C++ parts, if possible; otherwise the package is pure Python.

    They need neither torch nor one version of Python: what is built works with all of them.
    TRAJ_INTEGRATOR_NATIVE=0 leaves them out, TRAJ_INTEGRATOR_NATIVE=1 makes it an error if they cannot be built.
    """
    wish = os.environ.get("TRAJ_INTEGRATOR_NATIVE", "")
    if wish == "0":
        return {}
    if missing := what_is_missing():
        message = f"{PACKAGE}: no C++ parts, since there is {missing}; kernels are slower then, and no node runs"
        if wish == "1":
            raise SystemExit(message)
        print(message, file=sys.stderr, flush=True)
        return {}
    extensions = [extension(*part) for part in NATIVE_PARTS]

    class BuildIfPossible(build_ext):
        def finalize_options(self) -> None:
            super().finalize_options()
            self.force = True  # another compiler needs a new build, but setuptools checks only our sources

        def run(self) -> None:
            try:
                super().run()
            except Exception as error:  # no compiler or no headers: in any case, the kernels still work
                if wish == "1":
                    raise
                print(f"{PACKAGE}: no C++ parts, since they did not compile: {error}", file=sys.stderr)
                self.extensions = []

        def build_extensions(self) -> None:
            compiler = [*shlex.split(os.environ.get("CXX") or "c++"), *flags("CXXFLAGS")]
            to_object, to_module = [*compiler, *flags("CPPFLAGS"), "-fPIC"], [*compiler, "-shared", *flags("LDFLAGS")]
            self.compiler.set_executables(
                compiler_so=to_object, compiler_so_cxx=to_object, linker_so=to_module, linker_so_cxx=to_module
            )
            one_by_one = self.compiler.compile

            def compile_at_once(sources: list[str], **options: object) -> list[str]:
                with ThreadPoolExecutor(os.cpu_count()) as threads:
                    compiled = list(threads.map(lambda source: one_by_one([source], **options), sources))
                return [file for files in compiled for file in files]

            self.compiler.compile = compile_at_once
            super().build_extensions()

    return {"ext_modules": extensions, "cmdclass": {"build_ext": BuildIfPossible}}


def flags(variable: str) -> list[str]:
    """Words that an environment variable adds to a command."""
    return shlex.split(os.environ.get(variable, ""))


def what_is_missing() -> str:
    """Tools for compiling that this machine lacks, and how to get them; empty if nothing is missing."""
    compiler = shlex.split(os.environ.get("CXX") or "c++")[0]
    if shutil.which(compiler) is None:
        return f"no C++ compiler ({compiler}): sudo apt install g++ (Fedora: gcc-c++)"
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return f"no Python.h: sudo apt install python{version}-dev (Fedora: python3-devel)"
    return ""


# No -march: the loops of the kernels are compiled for several instruction sets and chosen at run time. No contraction:
# a trajectory is the same to the last bit on each of them.
COMPILE_ARGS = ["-O3", "-std=c++20", "-ffp-contract=off", "-fno-math-errno", "-g0", "-DNDEBUG"]
LIMITED_API = ("cp310", "0x030A0000")


def extension(name: str, folder: str, *more: str) -> Extension:
    """The C++ of a sub-package, in the limited API of the oldest Python: one module for all later ones."""
    sources = [f"{PACKAGE}/{folder}/src/*.cpp", *(f"{PACKAGE}/{file}" for file in more)]
    return Extension(
        f"{PACKAGE}.{name}",
        sorted(file for pattern in sources for file in glob(pattern)),
        include_dirs=[f"{NATIVE}/src", f"{NATIVE}/src/shared"],
        depends=sorted(str(path) for end in ("h", "inc") for path in Path(PACKAGE).glob(f"**/src/**/*.{end}")),
        define_macros=[("Py_LIMITED_API", LIMITED_API[1])],
        extra_compile_args=COMPILE_ARGS,
        extra_link_args=["-pthread"],
        language="c++",
        py_limited_api=True,
    )


def console_script(name: str) -> str:
    """The name of an executable in a bin that other packages use, too."""
    return f"traj_integrator_{name.removeprefix('integrator_')}"


def urls() -> dict[str, str]:
    """Public addresses of the project by kind: those of package.xml, which ROS's index shows, too."""
    return {element.get("type", "website").capitalize(): element.text.strip() for element in MANIFEST.iter("url")}


def index_page() -> str:
    """The README with links that lead somewhere on the page of a package index, too: to the tag of this version.

    Without a public repository, what a link says stays, and the link goes.
    """
    readme = (HERE / "README.md").read_text(encoding="utf-8") if (HERE / "README.md").is_file() else ""
    repository = urls().get("Repository", "").rstrip("/").removesuffix(".git")

    def absolute(link: re.Match[str]) -> str:
        image, told, path = link.groups()
        if not repository:
            return told
        return f"{image}[{told}]({repository}/{'raw' if image else 'blob'}/v{MANIFEST.findtext('version')}/{path})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)]+)\)", absolute, readme)


setup(
    name=PACKAGE,
    version="0.1.0",  # `__version__` is this, as installed; catkin_prepare_release finds it here and in package.xml
    description="Differentiable integration of batched joint trajectories: PyTorch kernels and a ROS 2 node",
    long_description=index_page(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    project_urls=urls(),
    keywords=["robotics", "ros2", "trajectory", "pytorch", "differentiable", "manipulation"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: C++",
        "Programming Language :: Python :: 3",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 15)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Mathematics",
        "Typing :: Typed",
    ],
    maintainer="traj_integrator_ros maintainers",
    maintainer_email="maintainers@users.noreply.github.com",
    python_requires=">=3.10",
    # traj_integrator_ros/kernels is a link to kernels/: found, copied and linked like any other sub-package.
    packages=find_packages(include=[PACKAGE, f"{PACKAGE}.*"]),
    package_data={
        PACKAGE: ["py.typed"],
        f"{PACKAGE}.kernels.native": ["src/*", "src/*/*"],
        **{f"{PACKAGE}.{name}": ["src/*"] for name in ("execution", "kernels.retime")},
    },
    # The kernels and the engine need torch and numpy. rclpy and messages come with ROS 2 (package.xml).
    install_requires=["torch>=2.6", "numpy"],
    extras_require={
        "node": NODE,
        "demo": [*NODE, "matplotlib", "rosbags", "scipy"],  # scipy: the demo's splines and L-BFGS
        "tools": [*NODE, "matplotlib", "rosbags"],
        "test": ["hypothesis", "pytest", "pytest-timeout", "pytest-xdist", "PyYAML", "scipy"],
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
        (f"share/{PACKAGE}/launch", sorted(glob("launch/*.launch.py"))),
        (f"share/{PACKAGE}/config", sorted(glob("config/*.yaml") + glob("config/*.xml") + glob("config/*.json"))),
        (f"share/{PACKAGE}/config/security", sorted(glob("config/security/*.xml"))),
    ],
    entry_points={
        "console_scripts": [
            f"{name if FOR_ROS2_RUN else console_script(name)} = {module}:main" for name, module in EXECUTABLES.items()
        ],
    },
    options={
        "bdist_wheel": {"py_limited_api": LIMITED_API[0]},
        **({"develop": {"script_dir": f"$base/lib/{PACKAGE}"}} if DEVELOP_KNOWS_SCRIPT_DIR else {}),
    },
    zip_safe=False,  # the compiled extension and the C++ sources must be files
    **compiled_parts(),
)
