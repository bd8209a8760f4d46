#include "bspline_launch.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "bspline.h"
#include "instruction_set.h"
#include "kept_memory.h"
#include "optional_tensors.h"

namespace traj_integrator {
namespace {

using at::Tensor;

// Elements below which a second thread costs more than it saves.
constexpr int64_t kSplineGrainElements = 32768;

template <class Problem>
struct Loops;
template <class Scalar>
struct Loops<SplineForward<Scalar>> {
  static SplineLoop<SplineForward<Scalar>> chosen() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    const std::string name = instruction_set_name();
    if (name == "avx512") return avx512::forward;
    if (name == "avx2") return avx2::forward;
#endif
    return baseline::forward;
  }
};
template <class Scalar>
struct Loops<SplineVjp<Scalar>> {
  static SplineLoop<SplineVjp<Scalar>> chosen() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    const std::string name = instruction_set_name();
    if (name == "avx512") return avx512::vjp;
    if (name == "avx2") return avx2::vjp;
#endif
    return baseline::vjp;
  }
};

template <class Problem>
void run(const Problem& problem, int64_t batch) {
  static const SplineLoop<Problem> loop = spline_loop<Problem>();
  const SplineShape& shape = problem.shape;
  const int64_t grain = std::max<int64_t>(1, kSplineGrainElements / std::max<int64_t>(1, shape.rows() * shape.dof));
  at::parallel_for(0, batch, grain, [&](int64_t begin, int64_t end) {
    thread_local std::vector<double> scratch;
    const size_t size = static_cast<size_t>(spline_scratch(shape));
    if (scratch.size() < size) scratch.resize(size);
    loop(problem, begin, end, scratch.data());
  });
}

template <class Index>
void check_rows(const char* name, const Tensor& index, int64_t rows) {
  const Index* data = index.const_data_ptr<Index>();
  for (int64_t b = 0; b < index.numel(); ++b) {
    TORCH_CHECK_INDEX(data[b] >= 0 && data[b] < rows, name, ": expected rows 0 to ", rows - 1, ", got ", data[b]);
  }
}

// The rows of a state as the loops read them; `kept` is the index in the form in which they read it.
SplineRows state_rows(const char* name, const Tensor& index, int64_t rows, int64_t batch, Tensor& kept) {
  SplineRows result;
  result.rows = rows;
  if (!index.defined()) {
    TORCH_CHECK_VALUE(rows == 1 || rows == batch, name, ": expected 1 or ", batch, " rows without it, got ", rows);
    return result;
  }
  TORCH_CHECK_VALUE(index.dim() == 1 && index.size(0) == batch, name, ": expected shape [", batch, "], got ",
                    index.sizes());
  kept = index.contiguous();
  result.is_int64 = kept.scalar_type() == at::kLong;
  if (result.is_int64) {
    check_rows<int64_t>(name, kept, rows);
  } else {
    TORCH_CHECK_TYPE(kept.scalar_type() == at::kInt, name, ": expected int32 or int64, got ", kept.scalar_type());
    check_rows<int32_t>(name, kept, rows);
  }
  result.index = kept.const_data_ptr();
  return result;
}

Tensor double_dt(const Tensor& dt, int64_t batch) {
  TORCH_CHECK_VALUE(dt.dim() == 2 && (dt.size(0) == 1 || dt.size(0) == batch) && dt.size(1) == 1,
                    "dt: expected shape [1 or ", batch, ", 1], got ", dt.sizes());
  return dt.scalar_type() == at::kDouble ? dt.contiguous() : dt.to(at::kDouble).contiguous();
}

SplineShape shape_of(const SplineForm& form, int64_t points, int64_t dof, bool has_goal, const Tensor& dt) {
  TORCH_CHECK_VALUE(points >= 1, "action: expected at least one control point");
  return shape_of(form, points, dof, has_goal, dt.const_data_ptr<double>(), dt.size(0) == 1 ? 0 : 1);
}

// Contiguous rows in the action's dtype, and how many there are.
int64_t contiguous_rows(const SplineEnd& end, at::ScalarType dtype, int64_t dof, std::array<Tensor, 4>& kept) {
  int64_t count = 1;
  bool any = false;
  for (size_t k = 0; k < 4; ++k) {
    if (!end.rows[k].defined()) continue;
    const Tensor& rows = end.rows[k];
    TORCH_CHECK_VALUE(rows.dim() == 2 && rows.size(1) == dof && (!any || rows.size(0) == count),
                      "state: expected rows of shape [", any ? count : rows.size(0), ", ", dof, "], got ", rows.sizes());
    count = rows.size(0);
    any = true;
    kept[k] = rows.scalar_type() == dtype ? rows.contiguous() : rows.to(dtype).contiguous();
  }
  return count;
}


template <class Function>
void with_scalar(at::ScalarType dtype, Function&& function) {
  if (dtype == at::kFloat) {
    function(std::type_identity<float>{});
  } else {
    TORCH_CHECK_TYPE(dtype == at::kDouble, "action: expected a floating-point tensor, got ", dtype);
    function(std::type_identity<double>{});
  }
}

void check_into(const Tensor& into, at::IntArrayRef shape, at::ScalarType dtype) {
  TORCH_CHECK_VALUE(into.sizes() == shape && into.scalar_type() == dtype && into.is_contiguous(),
                    "out: expected contiguous ", dtype, " tensors of shape ", shape, ", got ", into.scalar_type(), " ",
                    into.sizes(), " with strides ", into.strides());
}

// Everything that a forward call reads, in the form in which the loops read it.
template <class Scalar>
struct Arguments {
  Tensor action, dt, start_index, goal_index;
  std::array<Tensor, 4> start, goal;
  SplineForward<Scalar> problem{};

  Arguments(const SplineForm& form, const Tensor& given, const SplineEnd& begin, const SplineEnd& end, const Tensor& step) {
    const int64_t batch = given.size(0), dof = given.size(2);
    action = given.contiguous();
    dt = double_dt(step, batch);
    const bool has_goal = end.rows[0].defined();
    problem.shape = shape_of(form, given.size(1), dof, has_goal, dt);
    problem.action = action.const_data_ptr<Scalar>();
    const int64_t start_rows = contiguous_rows(begin, action.scalar_type(), dof, start);
    problem.start_rows = state_rows("start_index", begin.index, start_rows, batch, start_index);
    if (has_goal) {
      const int64_t goal_rows = contiguous_rows(end, action.scalar_type(), dof, goal);
      problem.goal_rows = state_rows("goal_index", end.index, goal_rows, batch, goal_index);
    }
    for (size_t k = 0; k < 4; ++k) {
      problem.start[k] = start[k].defined() ? start[k].const_data_ptr<Scalar>() : nullptr;
      problem.goal[k] = has_goal && goal[k].defined() ? goal[k].const_data_ptr<Scalar>() : nullptr;
    }
  }
};

// totals[row of b] += rows[b], in the order of the trajectories.
template <class Scalar>
void sum_rows(const double* rows, int64_t batch, int64_t dof, const SplineRows& index, std::vector<double>& totals,
              Scalar* to) {
  totals.assign(static_cast<size_t>(index.rows * dof), 0.0);
  for (int64_t b = 0; b < batch; ++b) {
    double* const total = totals.data() + index(b) * dof;
    for (int64_t d = 0; d < dof; ++d) total[d] += rows[b * dof + d];
  }
  for (size_t i = 0; i < totals.size(); ++i) to[i] = static_cast<Scalar>(totals[i]);
}

}  // namespace

template <class Problem>
SplineLoop<Problem> spline_loop() {
  return Loops<Problem>::chosen();
}

SplineShape shape_of(const SplineForm& form, int64_t points, int64_t dof, bool has_goal, const double* dt,
                     int64_t dt_stride) {
  SplineShape shape{};
  shape.degree = static_cast<int>(form.degree);
  shape.steps = form.steps;
  shape.points = points;
  shape.used = points - (has_goal && form.ignores_last);
  shape.head = form.head;
  shape.tail = has_goal ? form.head : form.degree;
  shape.has_goal = has_goal;
  shape.dof = dof;
  shape.weights = form.weights.const_data_ptr<double>();
  shape.state_weights = form.state_weights.const_data_ptr<double>();
  shape.dt = dt;
  shape.dt_stride = dt_stride;
  return shape;
}

template SplineLoop<SplineForward<double>> spline_loop();
template SplineLoop<SplineVjp<double>> spline_loop();

std::array<Tensor, 4> launch_spline_forward(const SplineForm& form, const Tensor& action, const SplineEnd& start,
                                            const SplineEnd& goal, const Tensor& dt, const std::array<Tensor, 4>& into) {
  TORCH_CHECK_VALUE(action.dim() == 3, "action: expected three dimensions, got ", action.sizes());
  const at::ScalarType dtype = action.scalar_type();
  if (is_half(dtype)) {
    auto outputs = launch_spline_forward(form, action.to(at::kDouble), start, goal, dt, {});
    for (size_t k = 0; k < 4; ++k) outputs[k] = into[k].defined() ? into[k].copy_(outputs[k]) : outputs[k].to(dtype);
    return outputs;
  }
  std::array<Tensor, 4> outputs;
  with_scalar(dtype, [&](auto type) {
    using Scalar = typename decltype(type)::type;
    Arguments<Scalar> arguments(form, action, start, goal, dt);
    const std::array<int64_t, 3> shape{action.size(0), arguments.problem.shape.rows(), action.size(2)};
    for (size_t k = 0; k < 4; ++k) {
      if (into[k].defined()) {
        check_into(into[k], shape, dtype);
        outputs[k] = into[k];
      } else {
        outputs[k] = new_result(shape, dtype);
      }
      arguments.problem.output[k] = outputs[k].template mutable_data_ptr<Scalar>();
    }
    run(arguments.problem, action.size(0));
  });
  return outputs;
}

std::array<Tensor, 9> launch_spline_vjp(const SplineForm& form, const std::array<Tensor, 4>& upstream,
                                        const Tensor& start_index, const Tensor& goal_index, const Tensor& dt,
                                        int64_t start_rows, int64_t goal_rows, int64_t points,
                                        const std::array<bool, 9>& needs, const std::array<Tensor, 9>& into) {
  Tensor like;
  for (const Tensor& gradient : upstream) {
    if (gradient.defined()) like = gradient;
  }
  TORCH_CHECK_VALUE(like.defined() && like.dim() == 3, "upstream: expected at least one tensor [batch, rows, dof]");
  const at::ScalarType dtype = like.scalar_type();
  if (is_half(dtype)) {
    std::array<Tensor, 4> widened;
    for (size_t k = 0; k < 4; ++k) widened[k] = upstream[k].defined() ? upstream[k].to(at::kDouble) : Tensor();
    auto results = launch_spline_vjp(form, widened, start_index, goal_index, dt, start_rows, goal_rows, points, needs, {});
    for (size_t k = 0; k < 9; ++k) {
      if (results[k].defined()) results[k] = into[k].defined() ? into[k].copy_(results[k]) : results[k].to(dtype);
    }
    return results;
  }
  const int64_t batch = like.size(0), dof = like.size(2);
  const bool has_goal = goal_rows >= 0;
  std::array<Tensor, 9> results;
  with_scalar(dtype, [&](auto type) {
    using Scalar = typename decltype(type)::type;
    const Tensor step = double_dt(dt, batch);
    SplineVjp<Scalar> problem{};
    problem.shape = shape_of(form, points, dof, has_goal, step);
    std::array<Tensor, 4> kept;
    for (size_t k = 0; k < 4; ++k) {
      if (!upstream[k].defined()) continue;
      const std::array<int64_t, 3> shape{batch, problem.shape.rows(), dof};
      TORCH_CHECK_VALUE(upstream[k].sizes() == at::IntArrayRef(shape), "upstream: expected shape ", at::IntArrayRef(shape),
                        ", got ", upstream[k].sizes());
      kept[k] = upstream[k].contiguous();
      problem.gradient[k] = kept[k].template const_data_ptr<Scalar>();
    }
    const auto result = [&](size_t k, at::IntArrayRef shape) {
      if (!needs[k]) return static_cast<Scalar*>(nullptr);
      if (into[k].defined()) {
        check_into(into[k], shape, dtype);
        results[k] = into[k];
      } else {
        results[k] = new_result(shape, dtype);
      }
      return results[k].template mutable_data_ptr<Scalar>();
    };
    problem.action = result(0, {batch, points, dof});
    Tensor kept_start, kept_goal;
    SplineRows rows[2] = {state_rows("start_index", start_index, start_rows, batch, kept_start), {}};
    if (has_goal) rows[1] = state_rows("goal_index", goal_index, goal_rows, batch, kept_goal);
    thread_local std::vector<double> sums, totals;
    int64_t summed = 0;
    for (size_t end = 0; end < (has_goal ? 2u : 1u); ++end) {
      for (size_t k = 0; k < 4; ++k) {
        const size_t place = 1 + 4 * end + k;
        Scalar* const to = result(place, {rows[end].rows, dof});
        if (to == nullptr) continue;
        const bool shared = rows[end].index != nullptr || rows[end].rows != batch;
        (end == 0 ? problem.start : problem.goal)[k] = shared ? nullptr : to;
        summed += shared;
      }
    }
    const size_t size = static_cast<size_t>(summed * batch * dof) + 1;  // a place also for sums of no trajectories
    if (sums.size() < size) sums.resize(size);
    double* next = sums.data();
    for (size_t end = 0; end < 2; ++end) {
      for (size_t k = 0; k < 4; ++k) {
        const bool own = (end == 0 ? problem.start : problem.goal)[k] != nullptr;
        if (own || !results[1 + 4 * end + k].defined()) continue;
        (end == 0 ? problem.start_sum : problem.goal_sum)[k] = next;
        next += batch * dof;
      }
    }
    run(problem, batch);
    for (size_t end = 0; end < 2; ++end) {
      for (size_t k = 0; k < 4; ++k) {
        const double* const from = (end == 0 ? problem.start_sum : problem.goal_sum)[k];
        if (from == nullptr) continue;
        sum_rows(from, batch, dof, rows[end], totals, results[1 + 4 * end + k].template mutable_data_ptr<Scalar>());
      }
    }
    for (size_t k = 5; k < 9 && !has_goal; ++k) TORCH_CHECK_VALUE(!needs[k], "needs: there is no goal");
  });
  return results;
}

Tensor launch_spline_dt_gradient(const SplineForm& form, const std::array<Tensor, 4>& upstream, const Tensor& action,
                                 const SplineEnd& start, const SplineEnd& goal, const Tensor& dt) {
  const int64_t batch = action.size(0);
  Tensor gradients = new_result({batch, 1}, at::kDouble);
  with_scalar(action.scalar_type(), [&](auto type) {
    using Scalar = typename decltype(type)::type;
    Arguments<Scalar> arguments(form, action, start, goal, dt);
    SplineVjp<Scalar> problem{};
    problem.shape = arguments.problem.shape;
    problem.at = &arguments.problem;
    problem.dt = gradients.mutable_data_ptr<double>();
    const std::array<int64_t, 3> shape{batch, problem.shape.rows(), action.size(2)};
    std::array<Tensor, 4> kept;
    for (size_t k = 0; k < 4; ++k) {
      if (!upstream[k].defined()) continue;
      TORCH_CHECK_VALUE(upstream[k].sizes() == at::IntArrayRef(shape), "upstream: expected shape ",
                        at::IntArrayRef(shape), ", got ", upstream[k].sizes());
      kept[k] = upstream[k].to(action.scalar_type()).contiguous();
      problem.gradient[k] = kept[k].template const_data_ptr<Scalar>();
    }
    run(problem, batch);
  });
  if (dt.size(0) == batch) return gradients;
  Tensor total = new_result({1, 1}, at::kDouble);
  double sum = 0;
  for (int64_t b = 0; b < batch; ++b) sum += gradients.const_data_ptr<double>()[b];
  *total.mutable_data_ptr<double>() = sum;
  return total;
}

}  // namespace traj_integrator
