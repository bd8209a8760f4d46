#include "python_torch.h"

#include <iterator>

namespace traj_integrator {

Torch torch{};

namespace {

constexpr char kTypes[] = {'f', 'd', 'i', 'l'};

struct Names {
  PyObject *data_ptr, *shape, *dtype, *is_cpu, *is_contiguous, *resolve_neg, *contiguous, *current_level;
} names{};

Object attribute(PyObject* object, PyObject* name) { return Object(PyObject_GetAttr(object, name)); }
Object called(PyObject* object, PyObject* name) { return Object(PyObject_CallMethodObjArgs(object, name, nullptr)); }

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

// By its Python attributes, which every torch has.
bool read_attributes(PyObject* tensor, Array& array) {
  const Object dtype = attribute(tensor, names.dtype), is_cpu = attribute(tensor, names.is_cpu);
  if (is_cpu.get() != Py_True || called(tensor, names.is_contiguous).get() != Py_True) return false;
  const Object shape = attribute(tensor, names.shape), address = called(tensor, names.data_ptr);
  if (shape.get() == nullptr || address.get() == nullptr) return false;
  for (int k = 0; k < 4; ++k) {
    if (dtype.get() == torch.dtypes[k]) array.type = kTypes[k];
  }
  array.dims = static_cast<int>(PyTuple_Size(shape.get()));
  if (array.dims < 0 || array.dims > Array::kMostDims) return false;
  for (int dim = 0; dim < array.dims; ++dim) array.shape[dim] = PyLong_AsLongLong(PyTuple_GetItem(shape.get(), dim));
  array.data = PyLong_AsVoidPtr(address.get());
  return true;
}

// By one call of a C function: a tenth of the time.
bool read_description(PyObject* tensor, Array& array) {
  DLTensor seen;
  if (torch.describe(tensor, &seen) != 0) {
    PyErr_Clear();
    return false;
  }
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
  return is_contiguous || stride == 0;
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
  const bool is_read = torch.describe != nullptr ? read_description(tensor, array) : read_attributes(tensor, array);
  return is_read && array.given() && (array.data != nullptr || array.size() == 0);
}

Object readable(PyObject* tensor) {
  const Object resolved = called(tensor, names.resolve_neg);
  return resolved.get() == nullptr ? Object() : called(resolved.get(), names.contiguous);
}

bool is_ordinary() {
  for (PyObject* const mode : torch.modes) {
    const Object active(PyObject_CallNoArgs(mode));
    if (active.get() == nullptr || PyObject_IsTrue(active.get()) != 0) return false;
  }
  const Object level = attribute(torch.forward_ad, names.current_level);
  return level.get() != nullptr && PyLong_AsLong(level.get()) < 0;
}

bool requires_grad(PyObject* tensor) {
  static const OfTensors needed("requires_grad");
  return needed.of(tensor).get() == Py_True;
}

bool is_grad_enabled() { return Object(PyObject_CallNoArgs(torch.is_grad_enabled)).get() == Py_True; }

PyObject* py_use(PyObject*, PyObject* const* args, Py_ssize_t count) {
  PyObject** const kept[] = {&torch.tensor, &torch.parameter, &torch.get_num_threads, &torch.from_dlpack,
                             &torch.is_grad_enabled, &torch.forward_ad};
  if (count != 9 || PyTuple_Size(args[6]) != 4 || PyTuple_Size(args[7]) != 4) {
    PyErr_SetString(PyExc_TypeError, "use: other arguments were expected");
    return nullptr;
  }
  for (Py_ssize_t k = 0; k < 8; ++k) Py_INCREF(args[k]);
  for (size_t k = 0; k < std::size(kept); ++k) *kept[k] = args[k];
  for (int k = 0; k < 4; ++k) torch.dtypes[k] = PyTuple_GetItem(args[6], k), torch.modes[k] = PyTuple_GetItem(args[7], k);
  if (args[8] != Py_None) {
    const auto* const api = static_cast<const DLExchange*>(PyCapsule_GetPointer(args[8], DLExchange::kCapsule));
    if (api == nullptr) return nullptr;
    if (api->major == DLExchange::kMajor) torch.describe = api->describe, torch.import_object = api->import_object;
  }
  const auto name = [](const char* text) { return PyUnicode_InternFromString(text); };
  names = {name("data_ptr"), name("shape"), name("dtype"), name("is_cpu"), name("is_contiguous"), name("resolve_neg"), name("contiguous"), name("_current_level")};
  Py_RETURN_NONE;
}

}  // namespace traj_integrator
