// The module `_native`: reads a message into the arrays into which one like it was read before.
//
// remember(equal, into, same, texts, size) -> what the message was like: a struct, or if size is not 0, so many bytes
// read_again(remembered, address | bytes) -> whether all numbers read are finite
//                                            | None, having read nothing: it is another message
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace traj_integrator::wire {
namespace {

constexpr const char* kName = "traj_integrator.remembered";

// As rosidl lays out sequences and strings in C.
struct Sequence {
  const char* data;
  size_t size;
  size_t capacity;
};

// Bytes of the message itself, or of the elements of the sequence there.
struct Expected {
  size_t at;
  size_t count;
  std::string bytes;
};

struct Texts {
  size_t at;
  std::vector<std::string> texts;
};

struct Into {
  size_t at;
  Py_buffer array;
};

struct Remembered {
  size_t size;  // in bytes; 0 for a struct
  std::vector<Expected> equal, same;
  std::vector<Texts> texts;
  std::vector<Into> into;

  ~Remembered() {
    for (Into& part : into) PyBuffer_Release(&part.array);
  }
};

const Sequence& sequence_at(const char* message, size_t at) { return *reinterpret_cast<const Sequence*>(message + at); }

bool is_like(const Remembered& remembered, const char* message) {
  for (const Expected& part : remembered.equal) {
    if (std::memcmp(message + part.at, part.bytes.data(), part.bytes.size()) != 0) return false;
  }
  if (remembered.size > 0) return true;
  for (const Into& part : remembered.into) {
    if (sequence_at(message, part.at).size != static_cast<size_t>(part.array.len / part.array.itemsize)) return false;
  }
  for (const Expected& part : remembered.same) {
    const Sequence& values = sequence_at(message, part.at);
    if (values.size != part.count) return false;
    if (part.count > 0 && std::memcmp(values.data, part.bytes.data(), part.bytes.size()) != 0) return false;
  }
  for (const Texts& part : remembered.texts) {
    const Sequence& texts = sequence_at(message, part.at);
    if (texts.size != part.texts.size()) return false;
    const Sequence* text = reinterpret_cast<const Sequence*>(texts.data);
    for (const std::string& expected : part.texts) {
      if (expected != std::string_view(text->data, text->size)) return false;
      ++text;
    }
  }
  return true;
}

// Copies numbers; returns whether none has all bits of its exponent set: those are infinite, or not numbers.
template <class Bits>
bool copy_finite(void* to, const char* from, size_t bytes, Bits exponent) {
  char* into = static_cast<char*>(to);
  Bits bad = 0;
  for (size_t at = 0; at < bytes; at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, from + at, sizeof(Bits));
    std::memcpy(into + at, &bits, sizeof(Bits));
    bad |= (bits & exponent) == exponent;
  }
  return bad == 0;
}

bool read(const Remembered& remembered, const char* message) {
  bool finite = true;
  for (const Into& part : remembered.into) {
    const char* from = remembered.size > 0 ? message + part.at : sequence_at(message, part.at).data;
    const size_t bytes = part.array.len;
    if (*part.array.format == 'f') {
      finite &= copy_finite<uint32_t>(part.array.buf, from, bytes, 0x7f800000U);
    } else {
      finite &= copy_finite<uint64_t>(part.array.buf, from, bytes, 0x7ff0000000000000U);
    }
  }
  return finite;
}

void forget(PyObject* capsule) {
  delete static_cast<Remembered*>(PyCapsule_GetPointer(capsule, kName));
}

bool take_bytes(PyObject* object, std::string& into) {
  char* data;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(object, &data, &size) != 0) return false;
  into.assign(data, size);
  return true;
}

// An item of a list, if it is a tuple: PyArg_ParseTuple takes nothing else.
PyObject* tuple_at(PyObject* list, Py_ssize_t i) {
  PyObject* item = PyList_GET_ITEM(list, i);
  if (PyTuple_Check(item)) return item;
  PyErr_Format(PyExc_TypeError, "remember: expected lists of tuples, got %s", Py_TYPE(item)->tp_name);
  return nullptr;
}

bool take_expected(PyObject* list, std::vector<Expected>& into) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    Py_ssize_t at, count;
    PyObject *bytes, *item = tuple_at(list, i);
    if (item == nullptr || !PyArg_ParseTuple(item, "nnO", &at, &count, &bytes)) return false;
    into.push_back({static_cast<size_t>(at), static_cast<size_t>(count), {}});
    if (!take_bytes(bytes, into.back().bytes)) return false;
  }
  return true;
}

bool take_texts(PyObject* list, std::vector<Texts>& into) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    Py_ssize_t at;
    PyObject *texts, *item = tuple_at(list, i);
    if (item == nullptr || !PyArg_ParseTuple(item, "nO!", &at, &PyTuple_Type, &texts)) return false;
    into.push_back({static_cast<size_t>(at), std::vector<std::string>(PyTuple_GET_SIZE(texts))});
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(texts); ++j) {
      if (!take_bytes(PyTuple_GET_ITEM(texts, j), into.back().texts[j])) return false;
    }
  }
  return true;
}

bool take_arrays(PyObject* list, std::vector<Into>& into) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    Py_ssize_t at;
    PyObject *array, *item = tuple_at(list, i);
    if (item == nullptr || !PyArg_ParseTuple(item, "nO", &at, &array)) return false;
    Py_buffer buffer;
    if (PyObject_GetBuffer(array, &buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE) != 0) return false;
    into.push_back({static_cast<size_t>(at), buffer});
    if (buffer.ndim != 1 || std::strlen(buffer.format) != 1 || std::strchr("fd", *buffer.format) == nullptr) {
      PyErr_Format(PyExc_TypeError, "into: expected arrays [N] of float or double, got format %s", buffer.format);
      return false;
    }
  }
  return true;
}

// Whether all parts of a message in bytes are within them.
bool fits(const Remembered& remembered) {
  for (const Expected& part : remembered.equal) {
    if (part.at > remembered.size || part.bytes.size() > remembered.size - part.at) return false;
  }
  for (const Into& part : remembered.into) {
    if (part.at > remembered.size || static_cast<size_t>(part.array.len) > remembered.size - part.at) return false;
  }
  return true;
}

PyObject* py_remember(PyObject*, PyObject* args) {
  PyObject *equal, *into, *same, *texts;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "O!O!O!O!n", &PyList_Type, &equal, &PyList_Type, &into, &PyList_Type, &same,
                        &PyList_Type, &texts, &size)) {
    return nullptr;
  }
  auto remembered = std::make_unique<Remembered>();
  remembered->size = size;
  if (!take_expected(equal, remembered->equal) || !take_arrays(into, remembered->into) ||
      !take_expected(same, remembered->same) || !take_texts(texts, remembered->texts)) {
    return nullptr;
  }
  if (size > 0 && !fits(*remembered)) {
    PyErr_Format(PyExc_ValueError, "equal, into: expected parts of %zd bytes, got some beyond", size);
    return nullptr;
  }
  PyObject* capsule = PyCapsule_New(remembered.get(), kName, &forget);
  if (capsule != nullptr) remembered.release();
  return capsule;
}

PyObject* py_read_again(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) {
    PyErr_Format(PyExc_TypeError, "read_again: expected 2 arguments, got %zd", count);
    return nullptr;
  }
  const auto* remembered = static_cast<const Remembered*>(PyCapsule_GetPointer(args[0], kName));
  if (remembered == nullptr) return nullptr;
  const char* message;
  if (remembered->size > 0) {
    char* bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(args[1], &bytes, &size) != 0) return nullptr;
    if (static_cast<size_t>(size) != remembered->size) Py_RETURN_NONE;
    message = bytes;
  } else {
    message = static_cast<const char*>(PyLong_AsVoidPtr(args[1]));
    if (message == nullptr && PyErr_Occurred() != nullptr) return nullptr;
  }
  if (!is_like(*remembered, message)) Py_RETURN_NONE;
  return PyBool_FromLong(read(*remembered, message));
}

PyMethodDef methods[] = {
    {"remember", &py_remember, METH_VARARGS, "What a message was like, and the arrays for its numbers."},
    {"read_again", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&py_read_again)), METH_FASTCALL,
     "Read a message like it into the same arrays."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "Messages read again.", -1, methods,
                          nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace traj_integrator::wire

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&traj_integrator::wire::definition); }
