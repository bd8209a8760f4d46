// An array borrowed from Python for one call: anything with the buffer protocol (numpy arrays foremost), or a tensor.
#pragma once

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "problem.h"

namespace traj_integrator {

class BorrowedArray {
 public:
  BorrowedArray() = default;
  BorrowedArray(const BorrowedArray&) = delete;
  BorrowedArray& operator=(const BorrowedArray&) = delete;
  ~BorrowedArray() {
    if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  }

  // None leaves it absent. Returns false if the object is neither None nor a contiguous CPU array of native numbers.
  bool take(PyObject* object, bool writable = false) {
    if (object == Py_None) return true;
    if (THPVariable_CheckExact(object)) return take_tensor(THPVariable_Unpack(object));
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, &buffer_, flags) != 0) {
      PyErr_Clear();
      return false;
    }
    if (buffer_.format == nullptr || std::strlen(buffer_.format) != 1) return false;
    data_ = buffer_.buf;
    dims_ = buffer_.ndim;
    shape_ = reinterpret_cast<const int64_t*>(buffer_.shape);
    type_ = *buffer_.format == 'q' ? 'l' : *buffer_.format;
    present_ = true;
    return true;
  }

  bool present() const { return present_; }
  // As in Python's struct: 'f' and 'd' are float and double, 'i' and 'l' integers of 32 and 64 bits.
  char type() const { return type_; }
  int64_t size(int dim) const { return shape_[dim]; }
  bool has_shape(int64_t rows, int64_t columns) const {
    return dims_ == 2 && shape_[0] == rows && shape_[1] == columns;
  }
  bool has_shape(int64_t batch, int64_t horizon, int64_t dof) const {
    return dims_ == 3 && shape_[0] == batch && shape_[1] == horizon && shape_[2] == dof;
  }
  int dims() const { return dims_; }
  template <class Scalar>
  Scalar* data() const {
    return static_cast<Scalar*>(data_);
  }

 private:
  bool take_tensor(const at::Tensor& tensor) {
    static_assert(sizeof(Py_ssize_t) == sizeof(int64_t) && sizeof(long) == sizeof(int64_t));
    if (!tensor.device().is_cpu() || tensor.layout() != at::kStrided || !tensor.is_contiguous()) return false;
    switch (tensor.scalar_type()) {
      case at::kFloat: type_ = 'f'; break;
      case at::kDouble: type_ = 'd'; break;
      case at::kInt: type_ = 'i'; break;
      case at::kLong: type_ = 'l'; break;
      default: return false;
    }
    data_ = const_cast<void*>(tensor.const_data_ptr());  // written to only if it is an output
    dims_ = static_cast<int>(tensor.dim());
    shape_ = tensor.sizes().data();
    present_ = true;
    return true;
  }

  Py_buffer buffer_{};
  void* data_ = nullptr;
  const int64_t* shape_ = nullptr;
  int dims_ = 0;
  char type_ = 0;
  bool present_ = false;
};

inline bool is_real(char type) { return type == 'f' || type == 'd'; }

// float64 [1 or batch, 1 or horizon].
inline bool take_steps(const BorrowedArray& dt, int64_t batch, int64_t horizon, StepLengths& steps) {
  if (!dt.present() || dt.type() != 'd' || dt.dims() != 2) return false;
  const int64_t rows = dt.size(0), columns = dt.size(1);
  if ((rows != 1 && rows != batch) || (columns != 1 && columns != horizon)) return false;
  steps = {dt.data<double>(), rows == 1 ? 0 : columns, columns == 1 ? 0 : 1};
  return true;
}

template <class Index>
bool rows_are_within(const Index* index, int64_t batch, int64_t rows) {
  return std::all_of(index, index + batch, [rows](Index row) { return row >= 0 && row < rows; });
}

// Rows of the start: one for all, one for each trajectory, or a pool from which the index selects.
inline bool take_index(const BorrowedArray& index, int64_t batch, int64_t rows, StartIndex& taken) {
  if (!index.present()) return rows == 1 || rows == batch;
  if (index.dims() != 1 || index.size(0) != batch) return false;
  taken = {index.data<void>(), index.type() == 'l'};
  if (index.type() == 'l') return rows_are_within(index.data<int64_t>(), batch, rows);
  return index.type() == 'i' && rows_are_within(index.data<int32_t>(), batch, rows);
}

}  // namespace traj_integrator
