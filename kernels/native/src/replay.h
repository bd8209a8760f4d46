// Launches on a device that Python has recorded once, and that are repeated without Python.
#pragma once

#include <Python.h>

namespace traj_integrator {

// Fast calls for Python: see kernels/triton/replay.py.
PyObject* replay_on(PyObject*, PyObject* const* args, Py_ssize_t count);
PyObject* replay_plans(PyObject*, PyObject*);

}  // namespace traj_integrator
