#include "python_torch.h"

#include <algorithm>

namespace traj_integrator {

Torch torch{};

namespace {

Object called(PyObject* object, const char* method) { return Object(PyObject_CallMethod(object, method, nullptr)); }

// A method or attribute of every tensor, looked up once.
struct OfTensors {
  PyObject* descriptor;
  descrgetfunc get;

  explicit OfTensors(const char* name)
      : descriptor(PyObject_GetAttrString(torch.tensor, name)),
        get(reinterpret_cast<descrgetfunc>(PyType_GetSlot(Py_TYPE(descriptor), Py_tp_descr_get))) {}
  Object of(PyObject* tensor) const { return Object(get(descriptor, tensor, reinterpret_cast<PyObject*>(Py_TYPE(tensor)))); }
  Object called(PyObject* tensor) const { return Object(PyObject_CallFunctionObjArgs(descriptor, tensor, nullptr)); }
};

// Reads a tensor as an array; returns whether the loops can take it, contiguous as they need it.
bool read(const DLTensor& seen, Array& array) {
  if (seen.device_type != DLTensor::kCpu || seen.dims > Array::kMostDims || (seen.bits != 32 && seen.bits != 64)) return false;
  if (seen.code == DLTensor::kFloat) array.type = seen.bits == 32 ? 'f' : 'd';
  if (seen.code == DLTensor::kInt) array.type = seen.bits == 32 ? 'i' : 'l';
  array.dims = seen.dims;
  int64_t stride = 1;
  bool is_contiguous = true;
  for (int dim = seen.dims - 1; dim >= 0; --dim) {
    array.shape[dim] = seen.shape[dim];
    is_contiguous = is_contiguous && (seen.shape[dim] == 1 || seen.strides[dim] == stride);
    stride *= seen.shape[dim];
  }
  array.data = static_cast<char*>(seen.data) + seen.byte_offset;
  return array.given() && (is_contiguous || stride == 0) && (array.data != nullptr || stride == 0);
}

}  // namespace

bool is_tensor(PyObject* object) {
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return type == torch.tensor || type == torch.parameter;
}

// Tensors of transforms have no address.
bool read_tensor(PyObject* tensor, Array& array) {
  array = {};
  static const OfTensors is_neg("is_neg");
  if (is_neg.called(tensor).get() != Py_False) return false;
  if (torch.exchange != nullptr) {  // takes a tenth of the time
    DLTensor seen;
    if (torch.exchange->describe(tensor, &seen) == 0) return read(seen, array);
    PyErr_Clear();
    return false;
  }
  const Object capsule(PyObject_CallFunctionObjArgs(torch.to_dlpack, tensor, nullptr));
  if (capsule.get() == nullptr) return false;
  return read(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.get(), DLManagedTensor::kCapsule))->tensor, array);
}

Object readable(PyObject* tensor) {
  const Object resolved = called(tensor, "resolve_neg");
  return resolved.get() == nullptr ? Object() : called(resolved.get(), "contiguous");
}

bool is_ordinary() {
  const bool has_no_modes = std::all_of(std::begin(torch.modes), std::end(torch.modes), [](PyObject* mode) {
    const Object active(PyObject_CallNoArgs(mode));
    return active.get() != nullptr && PyObject_IsTrue(active.get()) == 0;
  });
  static const Name current_level("_current_level");
  const Object level = current_level.of(torch.forward_ad);
  return has_no_modes && level.get() != nullptr && PyLong_AsLong(level.get()) < 0;
}

bool requires_grad(PyObject* tensor) {
  static const OfTensors needed("requires_grad");
  return needed.of(tensor).get() == Py_True;
}

bool is_grad_enabled() { return Object(PyObject_CallNoArgs(torch.is_grad_enabled)).get() == Py_True; }

PyObject* py_use(PyObject*, PyObject* args) {
  PyObject* exchange = nullptr;
  PyObject** const modes = torch.modes;
  if (PyArg_ParseTuple(args, "OOOOOOO(OOOO)O", &torch.tensor, &torch.parameter, &torch.get_num_threads, &torch.to_dlpack,
                       &torch.from_dlpack, &torch.is_grad_enabled, &torch.forward_ad, &modes[0], &modes[1], &modes[2], &modes[3],
                       &exchange) == 0) {
    return nullptr;
  }
  Py_INCREF(args);  // the tuple keeps all of them
  if (exchange != Py_None) {
    const auto* const api = static_cast<const DLExchange*>(PyCapsule_GetPointer(exchange, DLExchange::kCapsule));
    if (api == nullptr) return nullptr;
    if (api->major == DLExchange::kMajor) torch.exchange = api;
  }
  Py_RETURN_NONE;
}

}  // namespace traj_integrator
