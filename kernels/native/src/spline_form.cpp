#include "call.h"

namespace traj_integrator {
namespace {

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
std::vector<double> row_weights(int64_t degree, int64_t steps) {
  std::vector<double> table;
  table.reserve(static_cast<size_t>((steps + 1) * (4 * degree - 2)));
  for (int64_t row = 0; row <= steps; ++row) {
    for (int64_t order = 0; order < 4; ++order) {
      for (int64_t m = 0; m <= degree - order; ++m) table.push_back(basis(degree - order, m, row, steps));
    }
  }
  return table;
}

// [count, 4]: what h^k times the k-th derivative of a state adds to the m-th point that carries it.
std::vector<double> weights_of_state(int64_t degree, int64_t count, bool has_jerk) {
  std::vector<double> table;
  const double order = static_cast<double>(degree) + 1;
  for (int64_t m = 0; m < count; ++m) {
    const double x = static_cast<double>(m) - (static_cast<double>(degree) - 1) / 2;
    table.insert(table.end(), {1, x, (x * x - order / 12) / 2, has_jerk ? (x * x * x - order * x / 4) / 6 : 0});
  }
  return table;
}

}  // namespace

SplineForm::SplineForm(int64_t degree, int64_t steps, bool is_curobo)
    : degree(degree), steps(steps), head(degree + is_curobo), ignores_last(is_curobo) {
  expect(degree >= 3 && degree <= 5, Wrong::kValue, "degree: expected 3, 4 or 5, got ", degree);
  expect(steps >= 1 && steps <= kMostSteps, Wrong::kValue, "steps: expected 1 to ", kMostSteps,
         " rows for each segment, got ", steps);
  weights = row_weights(degree, steps);
  state_weights = weights_of_state(degree, head, /*has_jerk=*/!(is_curobo && degree == 3));
}

SplineShape SplineForm::shape(int64_t points, bool has_goal) const {
  return {.degree = static_cast<int>(degree), .steps = steps, .used = points - (has_goal && ignores_last), .head = head,
          .tail = has_goal ? head : degree, .has_goal = has_goal, .weights = weights.data(), .state_weights = state_weights.data()};
}

}  // namespace traj_integrator
