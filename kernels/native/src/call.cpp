#include "call.h"

#include <algorithm>
#include <array>
#include <vector>

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

struct Sizes {
  int64_t batch, horizon, dof, rows;
  char type;
};

void expect_real(const Array& array, const char* name) {
  expect(array.given(), Wrong::kType, name, ": expected an array, got none");
  expect(array.is_real(), Wrong::kType, name, ": expected float32 or float64, got ", name_of(array.type));
}

// Outputs, or their gradients.
void expect_outputs(const Call& call, const Sizes& sizes, const char* name, bool all) {
  for (const Array& output : call.outputs) {
    if (!all && !output.given()) continue;
    expect(output.type == sizes.type && output.has_shape({sizes.batch, sizes.rows, sizes.dof}), Wrong::kValue, name,
           ": expected contiguous ", name_of(sizes.type), " arrays of shape [", sizes.batch, ", ", sizes.rows, ", ", sizes.dof,
           "], got ", name_of(output.type), " of ", output);
  }
}

Sizes sizes_by_action(const Call& call) {
  expect_action(call.action);
  const int64_t horizon = call.action.shape[1];
  return {call.action.shape[0], horizon, call.action.shape[2], call.rows(horizon), call.action.type};
}

// Sizes as the gradients of the outputs have them: the action need not be there.
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

// What is written must not be what is read, nor be written twice.
void expect_apart(const char* name, const Array& written, const Array& other) {
  const auto end = [](const Array& array) {
    return array.as<const char>() + array.size() * (array.type == 'd' || array.type == 'l' ? 8 : 4);
  };
  if (!written.given() || !other.given() || written.size() == 0 || other.size() == 0) return;
  expect(written.data >= end(other) || other.data >= end(written), Wrong::kValue, name,
         ": expected memory of its own, got that of another argument");
}

template <class Function>
void with_scalar(char type, Function&& function) {
  if (type == 'f') {
    function(0.0F);
  } else {
    function(0.0);
  }
}

// One step length where the steps, `horizon` of them for all trajectories, are equal: the loops for that are quicker.
StepLengths simplified(const StepLengths& dt, int64_t horizon) {
  if (dt.step_stride == 0 || dt.batch_stride != 0) return dt;
  const bool equal = std::all_of(dt.data, dt.data + horizon, [&](double step) { return step == *dt.data; });
  return equal ? StepLengths{dt.data, 0, 0} : dt;
}

SplineShape spline_shape(const Call& call, const Sizes& sizes) {
  return call.spline == nullptr ? SplineShape{} : call.spline->shape(sizes.horizon, sizes.dof, call.has_goal);
}

template <class Scalar>
ForwardProblem<Scalar> forward_problem(const Call& call, const Sizes& sizes, const StepLengths& dt, const PickedRows& start,
                                       const PickedRows& goal) {
  ForwardProblem<Scalar> problem{call.map, spline_shape(call, sizes), sizes.horizon, sizes.dof, call.action.as<Scalar>()};
  problem.start_rows = start;
  problem.goal_rows = goal;
  problem.dt = dt;
  for (int k = 0; k < 4; ++k) {
    problem.start[k] = call.start.rows[k].as<Scalar>();
    problem.goal[k] = call.goal.rows[k].as<Scalar>();
    problem.output[k] = call.outputs[k].as<Scalar>();
  }
  return problem;
}

// Memory of this thread that is kept for the next call.
double* grown(std::vector<double>& memory, int64_t elements) {
  if (memory.size() < static_cast<size_t>(elements)) memory.resize(static_cast<size_t>(elements));
  return memory.data();
}

template <class Problem>
void run(const Problem& problem, int64_t begin, int64_t end, const Sizes& sizes, int threads, int64_t more_scratch = 0) {
  const Loop<Problem> chosen = loop<Problem>();
  const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, sizes.rows * std::max(sizes.dof, kLeastJoints)));
  parallel_for(begin, end, grain, threads, [&](int64_t first, int64_t last) {
    thread_local std::vector<double> memory;
    chosen(problem, first, last, grown(memory, scratch_size(problem.spline, problem.dof) + more_scratch));
  });
}

// Runs a vjp; gradients of rows that trajectories share are summed.
template <class Scalar>
void run_vjp(const Call& call, VjpProblem<Scalar>& problem, const PickedRows& start, const PickedRows& goal, const Sizes& sizes,
             int threads) {
  struct Sum {
    int kind;
    const PickedRows* rows;
    Scalar* to;
  };
  std::array<Sum, kEnds> sums{};
  int count = 0;
  int64_t totals = 0;
  const int64_t batch = sizes.batch, dof = sizes.dof;
  for (int k = 0; k < kEnds; ++k) {
    const Array& result = k < 4 ? call.start.rows[k] : call.goal.rows[k - 4];
    if (!result.given()) continue;
    const PickedRows& rows = k < 4 ? start : goal;
    if (rows.are_shared(batch)) {
      sums[count++] = {k, &rows, result.as<Scalar>()};
      totals += rows.count * dof;
    } else {
      problem.row[k] = result.as<Scalar>();
    }
  }
  if (count == 0) return run(problem, 0, batch, sizes, threads);

  // One part of the batch at a time, so that its rows take little memory.
  const int64_t part = std::clamp<int64_t>(kRowElements / std::max<int64_t>(1, dof), 1, std::max<int64_t>(1, batch));
  thread_local std::vector<double> memory;
  double* const rows = grown(memory, count * part * dof + totals + 1);
  double* const first_total = rows + count * part * dof;
  std::fill_n(first_total, totals, 0.0);
  for (int64_t begin = 0; begin < batch; begin += part) {
    const int64_t end = std::min(batch, begin + part);
    for (int k = 0; k < count; ++k) problem.sum[sums[k].kind] = rows + (k * part - begin) * dof;  // the loops count from trajectory 0
    run(problem, begin, end, sizes, threads);
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

// Start and goal as a call of these sizes has them.
std::pair<PickedRows, PickedRows> ends_of(const Call& call, const Sizes& sizes) {
  const PickedRows start = picked_rows("start", call.start, sizes.type, sizes.batch, sizes.dof);
  if (call.has_goal) return {start, picked_rows("goal", call.goal, sizes.type, sizes.batch, sizes.dof)};
  for (const Array& rows : call.goal.rows) expect(!rows.given(), Wrong::kValue, "goal: expected none, got rows of ", rows);
  return {start, {}};
}

}  // namespace

void expect_action(const Array& action) {
  expect_real(action, "action");
  expect(action.dims == 3 && action.shape[1] >= 1, Wrong::kValue, "action: expected shape [batch, horizon >= 1, dof], got ",
         action);
}

PickedRows picked_rows(const char* name, const EndArrays& end, char type, int64_t batch, int64_t dof) {
  int64_t count = -1;
  for (const Array& rows : end.rows) {
    if (!rows.given()) continue;
    expect(type == 0 ? rows.is_real() : rows.type == type, Wrong::kType, name, " rows: expected the action's dtype, got ",
           name_of(rows.type));
    expect(rows.dims == 2 && rows.shape[1] == dof && (count < 0 || rows.shape[0] == count), Wrong::kValue, name,
           " rows: expected one shape [1 or ", batch, ", ", dof, "] or that of a pool, got ", rows);
    count = rows.shape[0];
  }
  const Array& index = end.index;
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

void forward(const Call& call, int threads) {
  const Sizes sizes = sizes_by_action(call);
  const StepLengths dt = simplified(step_lengths(call, sizes.batch, sizes.horizon), sizes.horizon);
  const auto [start, goal] = ends_of(call, sizes);
  expect_outputs(call, sizes, "out", /*all=*/true);
  for (int k = 0; !call.has_new_outputs && k < 4; ++k) {
    expect_apart("out", call.outputs[k], call.action);
    for (int other = 0; other < 4; ++other) {
      if (other < k) expect_apart("out", call.outputs[k], call.outputs[other]);
      expect_apart("out", call.outputs[k], call.start.rows[other]);
      expect_apart("out", call.outputs[k], call.goal.rows[other]);
    }
    expect_apart("out", call.outputs[k], call.start.index);
  }
  with_scalar(sizes.type, [&, &start = start, &goal = goal](auto zero) {
    run(forward_problem<decltype(zero)>(call, sizes, dt, start, goal), 0, sizes.batch, sizes, threads);
  });
}

void vjp(const Call& call, int threads) {
  const Sizes sizes = sizes_by_outputs(call);
  const StepLengths dt = simplified(step_lengths(call, sizes.batch, sizes.horizon), sizes.horizon);
  expect_outputs(call, sizes, "upstream", /*all=*/false);
  const auto [start, goal] = ends_of(call, sizes);
  if (call.action.given()) {
    expect(call.action.type == sizes.type && call.action.has_shape({sizes.batch, sizes.horizon, sizes.dof}), Wrong::kValue,
           "out: expected a contiguous ", name_of(sizes.type), " array of shape [", sizes.batch, ", ", sizes.horizon, ", ",
           sizes.dof, "], got ", name_of(call.action.type), " of ", call.action);
  }
  for (const Array& gradient : call.outputs) expect_apart("out", call.action, gradient);
  with_scalar(sizes.type, [&, &start = start, &goal = goal](auto zero) {
    using Scalar = decltype(zero);
    VjpProblem<Scalar> problem{call.map, spline_shape(call, sizes), sizes.horizon, sizes.dof};
    problem.dt = dt;
    problem.truncate_terminal = call.truncate_terminal;
    problem.action = call.action.as<Scalar>();
    for (int k = 0; k < 4; ++k) {
      problem.gradient[k] = call.outputs[k].as<Scalar>();
      problem.wants_start = problem.wants_start || call.start.rows[k].given();
    }
    run_vjp(call, problem, start, goal, sizes, threads);
  });
}

void dt_gradient(const Call& call, const Array& result, int threads) {
  const Sizes sizes = sizes_by_action(call);
  const StepLengths dt = step_lengths(call, sizes.batch, sizes.horizon);
  const auto [start, goal] = ends_of(call, sizes);
  expect_outputs(call, sizes, "upstream", /*all=*/false);
  expect(result.type == 'd' && result.has_shape({call.dt.shape[0], call.dt.shape[1]}), Wrong::kValue,
         "gradient of dt: expected float64 of the shape of dt, got ", result);
  with_scalar(sizes.type, [&, &start = start, &goal = goal](auto zero) {
    using Scalar = decltype(zero);
    const ForwardProblem<Scalar> at = forward_problem<Scalar>(call, sizes, dt, start, goal);
    VjpProblem<Scalar> problem{call.map, at.spline, sizes.horizon, sizes.dof};
    problem.dt = dt;
    problem.at = &at;
    for (int k = 0; k < 4; ++k) problem.gradient[k] = call.outputs[k].as<Scalar>();
    const int64_t columns = call.dt.shape[1];
    const bool is_shared = call.dt.shape[0] != sizes.batch;
    std::vector<double> each(is_shared ? static_cast<size_t>(sizes.batch * columns) : 0);
    double* const total = result.as<double>();
    problem.by_dt = is_shared ? each.data() : total;
    run(problem, 0, sizes.batch, sizes, threads, lengths_scratch(sizes.horizon, sizes.rows, sizes.dof));
    if (!is_shared) return;
    std::fill_n(total, columns, 0.0);
    for (int64_t b = 0; b < sizes.batch; ++b) {
      for (int64_t h = 0; h < columns; ++h) total[h] += each[static_cast<size_t>(b * columns + h)];
    }
  });
}

}  // namespace traj_integrator
