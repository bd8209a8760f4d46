#include "call.h"

#include <algorithm>
#include <array>

#include "instruction_set.h"
#include "parallel.h"

namespace traj_integrator {
namespace {

// Elements below which a second thread costs more than it saves; a row of fewer joints takes as long as one of three.
constexpr int64_t kGrainElements = 16384, kLeastJoints = 3;
// Number of doubles of start rows that are collected before they are summed.
constexpr int64_t kRowElements = 1 << 17;

const char* name_of(char type) {
  switch (type) {
    case 'f': return "float32";
    case 'd': return "float64";
    case 'i': return "int32";
    case 'l': return "int64";
    default: return "something else";
  }
}

void expect_real(const Array& array, const char* name) {
  expect(array.given(), Wrong::kType, name, ": expected an array, got none");
  expect(array.is_real(), Wrong::kType, name, ": expected float32 or float64, got ", name_of(array.type));
}

Sizes sizes_by_action(const Call& call) {
  expect_action(call.action);
  const auto& shape = call.action.shape;
  return {shape[0], shape[1], shape[2], call.rows(shape[1]), call.action.type};
}

// Sizes taken from the gradients of the outputs: the action may be missing.
Sizes sizes_by_outputs(const Call& call) {
  const Array* const first = std::find_if(call.outputs, call.outputs + 4, [](const Array& a) { return a.given(); });
  expect(first != call.outputs + 4, Wrong::kValue, "upstream: expected at least one gradient, got none");
  expect_real(*first, "upstream");
  expect(first->dims == 3, Wrong::kValue, "upstream: expected shape [batch, rows, dof], got ", *first);
  const int64_t rows = first->shape[1];
  const int64_t horizon = call.spline != nullptr ? call.spline->points(rows) : rows - row_of(call.map).extra_horizon;
  expect(horizon >= 1 && call.rows(horizon) == rows, Wrong::kValue, "upstream: expected the rows of some actions, got ", rows);
  return {first->shape[0], horizon, first->shape[2], rows, first->type};
}

// Start (`end` 0) or goal; `type` 0 stands for any real one.
PickedRows picked_rows(const Call& call, int end, char type, int64_t batch, int64_t dof) {
  const char* const name = end == 0 ? "start" : "goal";
  int64_t count = -1;
  for (int k = 0; k < kStartRows; ++k) {
    const Array& rows = call.ends[kStartRows * end + k];
    if (!rows.given()) continue;
    expect(end == 0 || call.has_goal, Wrong::kValue, "goal: expected none, got rows of ", rows);
    expect(type == 0 ? rows.is_real() : rows.type == type, Wrong::kType, name, " rows: expected the action's dtype, got ",
           name_of(rows.type));
    expect(rows.dims == 2 && rows.shape[1] == dof && (count < 0 || rows.shape[0] == count), Wrong::kValue, name,
           " rows: expected one shape [1 or ", batch, ", ", dof, "] or a pool's, got ", rows);
    count = rows.shape[0];
  }
  const Array& index = call.index[end];
  if (count < 0) return {};
  if (!index.given()) {
    expect(count == 1 || count == batch, Wrong::kValue, name, " rows: expected 1 or ", batch, " without an index, got ", count);
    return {count};
  }
  expect(index.type == 'i' || index.type == 'l', Wrong::kType, name, "_index: expected int32 or int64, got ",
         name_of(index.type));
  expect(index.dims == 1 && index.shape[0] == batch, Wrong::kValue, name, "_index: expected shape [", batch, "], got ", index);
  const PickedRows picked{count, index.data, index.type == 'l'};
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t row = picked(b);
    expect(row >= 0 && row < count, Wrong::kIndex, name, "_index: expected rows 0 to ", count - 1, ", got ", row);
  }
  return picked;
}

StepLengths step_lengths(const Call& call, int64_t batch, int64_t horizon) {
  const Array& dt = call.dt;
  expect(dt.type == 'd' && dt.dims == 2 && (dt.shape[0] == 1 || dt.shape[0] == batch) &&
             (dt.shape[1] == 1 || dt.shape[1] == horizon),
         Wrong::kValue, "dt: expected float64 of shape [1 or ", batch, ", 1 or ", horizon, "], got ", name_of(dt.type), " of ", dt);
  const bool one_dt = call.spline != nullptr || row_of(call.map).one_dt;
  expect(!one_dt || dt.shape[1] == 1, Wrong::kValue, "dt: expected one step length for each trajectory, got shape ", dt);
  return {dt.as<double>(), dt.shape[0] == 1 ? 0 : dt.shape[1], dt.shape[1] == 1 ? 0 : 1};
}

// No output may share memory with an input, nor with another output.
void expect_apart(const char* name, const Array& written, const Array& other) {
  const auto end = [](const Array& array) {
    return array.as<const char>() + array.size() * (array.type == 'd' || array.type == 'l' ? 8 : 4);
  };
  if (!written.given() || !other.given() || written.size() == 0 || other.size() == 0) return;
  expect(written.data >= end(other) || other.data >= end(written), Wrong::kValue, name,
         ": expected memory of its own, got that of another argument");
}

// Replaces `horizon` equal steps by a single step length, for which the loops are quicker.
StepLengths simplified(const StepLengths& dt, int64_t horizon) {
  if (dt.step_stride == 0 || dt.batch_stride != 0) return dt;
  const bool equal = std::all_of(dt.data, dt.data + horizon, [&](double step) { return step == *dt.data; });
  return equal ? StepLengths{dt.data, 0, 0} : dt;
}

template <class Scalar>
void run(Loop<Scalar> loop, const Problem<Scalar>& problem, int64_t begin, int64_t end, int threads) {
  const int64_t size = problem.rows() * std::max(problem.dof, kLeastJoints);
  parallel_for(begin, end, std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, size)), threads, [&](int64_t first, int64_t last) {
    thread_local std::vector<double> memory;
    loop(problem, first, last, grown(memory, scratch_size(problem)));
  });
}

// Runs a vjp; gradients of rows that trajectories share are summed.
template <class Scalar>
void run_vjp(Problem<Scalar>& problem, int64_t batch, int threads) {
  struct Sum {
    int kind;
    const PickedRows* rows;
    Scalar* to;
  };
  std::array<Sum, kEnds> sums{};
  int count = 0;
  int64_t totals = 0;
  const int64_t dof = problem.dof;
  const Loop<Scalar> loop = loops().of<Scalar>().vjp;
  for (int k = 0; k < kEnds; ++k) {
    const PickedRows& rows = problem.picked[k / kStartRows];
    if (problem.end[k] == nullptr || !rows.are_shared(batch)) continue;
    sums[count++] = {k, &rows, std::exchange(problem.end[k], nullptr)};
    totals += rows.count * dof;
  }
  if (count == 0) return run(loop, problem, 0, batch, threads);

  // One part of the batch at a time, so that its rows take little memory.
  const int64_t part = std::clamp<int64_t>(kRowElements / std::max<int64_t>(1, dof), 1, std::max<int64_t>(1, batch));
  thread_local std::vector<double> memory;
  double* const rows = grown(memory, count * part * dof + totals + 1);
  double* const first_total = rows + count * part * dof;
  std::fill_n(first_total, totals, 0.0);
  for (int64_t begin = 0; begin < batch; begin += part) {
    const int64_t end = std::min(batch, begin + part);
    // the loops count from trajectory 0
    for (int k = 0; k < count; ++k) problem.sum[sums[k].kind] = rows + (k * part - begin) * dof;
    run(loop, problem, begin, end, threads);
    double* total = first_total;
    for (int k = 0; k < count; ++k) {
      for (int64_t b = begin; b < end; ++b) {
        double* const to = total + (*sums[k].rows)(b) * dof;
        const double* const from = problem.sum[sums[k].kind] + b * dof;
        for (int64_t d = 0; d < dof; ++d) to[d] += from[d];
      }
      total += sums[k].rows->count * dof;
    }
  }
  const double* total = first_total;
  for (int k = 0; k < count; ++k) {
    const int64_t size = sums[k].rows->count * dof;
    for (int64_t i = 0; i < size; ++i) sums[k].to[i] = static_cast<Scalar>(total[i]);
    total += size;
  }
}

}  // namespace

void expect_action(const Array& action) {
  expect_real(action, "action");
  expect(action.dims == 3 && action.shape[1] >= 1, Wrong::kValue, "action: expected shape [batch, horizon >= 1, dof], got ",
         action);
}

void expect_outputs(const Call& call, const Sizes& sizes, const char* name, bool all) {
  for (const Array& output : call.outputs) {
    if (!all && !output.given()) continue;
    expect(output.type == sizes.type && output.has_shape({sizes.batch, sizes.rows, sizes.dof}), Wrong::kValue, name,
           ": expected contiguous ", name_of(sizes.type), " arrays of shape [", sizes.batch, ", ", sizes.rows, ", ", sizes.dof,
           "], got ", name_of(output.type), " of ", output);
  }
}

Checked::Checked(const Call& call, bool any_type) : Checked(call, sizes_by_action(call), any_type) {}

Checked::Checked(const Call& call, const Sizes& sizes, bool any_type)
    : Sizes(sizes), dt(step_lengths(call, batch, actions)) {
  for (int end = 0; end < 2; ++end) picked[end] = picked_rows(call, end, any_type ? 0 : type, batch, dof);
}

void forward(const Call& call, int threads) {
  const Checked checked(call);
  expect_outputs(call, checked, "out", /*all=*/true);
  for (int k = 0; !call.has_new_outputs && k < kOutputs; ++k) {
    const Array& output = call.outputs[k];
    expect_apart("out", output, call.action);
    for (int other = 0; other < k; ++other) expect_apart("out", output, call.outputs[other]);
    for (const Array& rows : call.ends) expect_apart("out", output, rows);
    for (const Array& index : call.index) expect_apart("out", output, index);
  }
  with_scalar(checked.type, [&](auto zero) {
    Problem<decltype(zero)> problem = problem_of<decltype(zero)>(call, checked);
    problem.dt = simplified(problem.dt, problem.actions);
    run(loops().of<decltype(zero)>().forward, problem, 0, checked.batch, threads);
  });
}

void vjp(const Call& call, int threads) {
  const Sizes sizes = sizes_by_outputs(call);
  const Checked checked(call, sizes, /*any_type=*/false);
  expect_outputs(call, sizes, "upstream", /*all=*/false);
  if (call.action.given()) {
    expect(call.action.type == sizes.type && call.action.has_shape({sizes.batch, sizes.actions, sizes.dof}), Wrong::kValue,
           "out: expected a contiguous ", name_of(sizes.type), " array of shape [", sizes.batch, ", ", sizes.actions, ", ",
           sizes.dof, "], got ", name_of(call.action.type), " of ", call.action);
  }
  for (const Array& gradient : call.outputs) expect_apart("out", call.action, gradient);
  with_scalar(sizes.type, [&](auto zero) {
    Problem<decltype(zero)> problem = problem_of<decltype(zero)>(call, checked);
    problem.dt = simplified(problem.dt, problem.actions);
    run_vjp(problem, sizes.batch, threads);
  });
}

}  // namespace traj_integrator
