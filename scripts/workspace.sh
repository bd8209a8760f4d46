#!/bin/bash
# Builds the last commit in a ROS 2 workspace by the README's commands, copied and with links, and uses it from both: part
# of `make stranger`. Set-up's environment stands in for a ROS 2 installation and for what rosdep and pip install there.
set -e
cd "$(dirname "$0")/.."
. .venv/environment.sh
root=$PWD site=$(python -c 'import site; print(site.getsitepackages()[0])') colcon=$PWD/build/colcon
python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target "$colcon" -r requirements/colcon.txt
build=$(sed -n 's/^python3 -m colcon build //p' README.md)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/src/traj_integrator_ros"
git archive HEAD | tar --extract --directory "$folder/src/traj_integrator_ros"
cd "$folder"
python3 -m venv --system-site-packages venv && source venv/bin/activate
for packages in venv/lib/python3.*/site-packages; do
  echo "import site; site.addsitedir('$site')" > "$packages/system.pth"
done
export TRAJ_INTEGRATOR_NATIVE=0
# shellcheck disable=SC2086 # words of the README
PYTHONPATH=$colcon python3 -m colcon build $build
PYTHONPATH=$colcon python3 -m colcon build --symlink-install --base-paths src --build-base build_links --install-base install_links
for install in install install_links; do
  (
    source install/setup.bash && source $install/setup.bash && cd /
    python3 -c "import traj_integrator_interfaces.msg, traj_integrator_ros.kernels as k; assert k.__file__.startswith('$folder'), k.__file__"
    prefix=$folder/$install/traj_integrator_ros
    test -f "$prefix/share/traj_integrator_ros/launch/integrator.launch.py" -a -f "$prefix/share/traj_integrator_ros/config/franka.yaml"
    head -n 1 "$prefix/lib/traj_integrator_ros/demo" | grep --quiet "$folder/venv/bin/python"  # needs no activation
    "$prefix/lib/traj_integrator_ros/demo" --help > /dev/null
  )
done
echo "workspace: built by colcon, copied and with links, from $root"
