#include "bspline_tables.h"

#include <ATen/ops/empty.h>

#include <map>
#include <mutex>
#include <tuple>

namespace traj_integrator {
namespace {

using at::Tensor;
using Wide = __int128;  // 5 steps to the fifth power, for as many rows as memory holds

constexpr int64_t kMostSteps = 1'000'000;

Wide power(Wide base, int64_t exponent) {
  Wide result = 1;
  for (int64_t i = 0; i < exponent; ++i) result *= base;
  return result;
}

int64_t binomial(int64_t n, int64_t k) {
  int64_t result = 1;
  for (int64_t i = 0; i < k; ++i) result = result * (n - i) / (i + 1);
  return result;
}

// b_m(row / steps) of a spline of that degree, in whole numbers up to the division.
double basis(int64_t degree, int64_t m, int64_t row, int64_t steps) {
  Wide sum = 0, scale = power(steps, degree);
  for (int64_t i = 2; i <= degree; ++i) scale *= i;
  for (int64_t k = 0; k <= degree - m; ++k) {
    const Wide term = binomial(degree + 1, k) * power(row + (degree - m - k) * steps, degree);
    sum += k % 2 == 0 ? term : -term;
  }
  return static_cast<double>(static_cast<long double>(sum) / static_cast<long double>(scale));
}

// [steps + 1, 4 K - 2]: for every row the weights of points, and of their first, second and third differences.
Tensor row_weights(int64_t degree, int64_t steps) {
  Tensor table = at::empty({steps + 1, 4 * degree - 2}, at::kDouble);
  double* weight = table.mutable_data_ptr<double>();
  for (int64_t row = 0; row <= steps; ++row) {
    for (int64_t order = 0; order < 4; ++order) {
      for (int64_t m = 0; m <= degree - order; ++m) *weight++ = basis(degree - order, m, row, steps);
    }
  }
  return table;
}

// [count, 4]: what h^k times the k-th derivative of a state adds to the m-th point that carries it.
Tensor state_weights(int64_t degree, int64_t count, bool has_jerk) {
  Tensor table = at::empty({count, 4}, at::kDouble);
  double* weight = table.mutable_data_ptr<double>();
  const double order = static_cast<double>(degree) + 1;
  for (int64_t m = 0; m < count; ++m) {
    const double x = static_cast<double>(m) - (static_cast<double>(degree) - 1) / 2;
    *weight++ = 1;
    *weight++ = x;
    *weight++ = (x * x - order / 12) / 2;
    *weight++ = has_jerk ? (x * x * x - order * x / 4) / 6 : 0;
  }
  return table;
}

}  // namespace

SplineForm spline_form(const SplineOptions& options) {
  const int64_t degree = options.degree, steps = options.steps;
  const bool is_curobo = options.layout == SplineLayout::kCurobo;
  TORCH_CHECK_VALUE(degree >= 3 && degree <= 5, "degree: expected 3, 4 or 5, got ", degree);
  TORCH_CHECK_VALUE(steps >= 1 && steps <= kMostSteps, "steps: expected 1 to ", kMostSteps,
                    " rows for each segment, got ", steps);
  static std::mutex mutex;
  static std::map<std::tuple<int64_t, int64_t, bool>, SplineForm> known;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [place, is_new] = known.try_emplace({degree, steps, is_curobo});
  if (is_new) {
    const int64_t head = degree + is_curobo;
    place->second = {degree, steps, head, is_curobo, row_weights(degree, steps),
                     state_weights(degree, head, /*has_jerk=*/!(is_curobo && degree == 3))};
  }
  return place->second;
}

}  // namespace traj_integrator
