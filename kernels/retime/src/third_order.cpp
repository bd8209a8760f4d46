#include "third_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace traj_integrator::retiming {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMostIterations = 60, kMostRounds = 6;
// Rounding leaves this much of the dual residual.
constexpr double kLeastResidual = 1e-5;
constexpr int kMatrix = 0, kRight = 6, kGap = 15, kLeast = 16, kY = 17, kU = 18, kW = 19, kR = 20, kSlope = 21, kStepY = 22,
              kStepU = 23, kStepW = 24, kShrinkZ = 25, kShrinkL = 26, kArrays = 27;  // places in the work arrays

Sums sums_of(std::vector<double>* work) {
  Sums sums;
  for (int i = 0; i < 6; ++i) sums.matrix[i] = work[kMatrix + i].data();
  for (int i = 0; i < 9; ++i) sums.right[i] = work[kRight + i].data();
  sums.gap = work[kGap].data();
  sums.least = work[kLeast].data();
  return sums;
}

State state_of(const std::vector<double>* work) {
  return {work[kY].data(), work[kU].data(), work[kW].data(), work[kR].data(), work[kSlope].data()};
}

double sum(const std::vector<double>& values, int64_t count) {
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += values[static_cast<size_t>(i)];
  return total;
}

}  // namespace

void ThirdOrder::form(const Path& path, const Limits& limits, bool slow_only) {
  path_ = &path;
  dof_ = path.dof();
  const int64_t N = base.intervals();
  unknowns_ = N + 2;
  knots_ = places_of_knots(path, base);
  slow_.clear();
  slow_.add_everywhere(N, 3, false, knots_);
  slow_.add(N - 1, 1, path.pieces() - 1);
  slow_.finish(path, base);
  fast_.clear();
  fast_.add_everywhere(N, 3, true, knots_);
  fast_.add_knots(knots_);
  fast_.finish(path, base);
  fine_.clear();
  fine_.add_everywhere(N, 8, true, knots_);
  fine_.add_knots(knots_);
  fine_.finish(path, base);

  for (int i = 0; i < 3; ++i) inverse_[i].resize(static_cast<size_t>(dof_));
  inverse_jerk_.resize(static_cast<size_t>(dof_));
  inverse_velocity_.resize(static_cast<size_t>(dof_));
  for (size_t j = 0; j < static_cast<size_t>(dof_); ++j) {
    inverse_[0][j] = 1 / limits.highest[j];
    inverse_[1][j] = 1 / limits.lowest[j];
    inverse_[2][j] = 1 / limits.jerk[j];
    inverse_velocity_[j] = 1 / limits.velocity[j];
  }
  const auto bounds = [&](const Points& points, std::vector<double>& bound) {
    bound.assign(static_cast<size_t>(points.padded), 0.0);  // of max (q1 / V)^2
    for (int64_t j = 0; j < dof_; ++j) {
      const double inverse = 1 / limits.velocity[j];
      const double* const q1 = points.q1.data() + j * points.padded;
      for (size_t p = 0; p < bound.size(); ++p) {
        const double ratio = std::abs(q1[p]) * inverse;
        bound[p] = std::max(bound[p], ratio * ratio);
      }
    }
  };
  bounds(slow_, velocity_bound_);
  bounds(fine_, fine_velocity_bound_);
  slow_only_ = slow_only;
  for (auto* scale : {&velocity_scale_, &acceleration_scale_, &jerk_scale_}) scale->assign(static_cast<size_t>(N), 1.0);
  for (int i = 0; i < kArrays; ++i) {
    work_slow_[i].assign(static_cast<size_t>(slow_.padded), 0.0);
    work_fast_[i].assign(static_cast<size_t>(std::max(fast_.padded, fine_.padded)), 0.0);
  }
  for (int i = 0; i < 16; ++i) {
    multipliers_[i].assign(static_cast<size_t>((i < 8 ? slow_ : fast_).padded * dof_), 0.0);
  }
  for (auto* each : {&bound_z_, &bound_l_, &bound_dz_, &bound_dl_}) each->assign(static_cast<size_t>(slow_.padded), 0.0);
  b_.assign(static_cast<size_t>(unknowns_), 0.0);
  db_ = gradient_ = b_;
  for (int i = 0; i < 3; ++i) diagonal_[i] = right_[i] = b_;
}

// The parts of the limits that may be used at the points; rows of coefficients that are all given are taken out.
void ThirdOrder::set_scales() {
  const int64_t N = base.intervals();
  const auto at = [&](const std::vector<double>& scale, int64_t k, double e) {
    const double here = scale[static_cast<size_t>(k)];
    return e == 0 && k > 0 ? std::min(here, scale[static_cast<size_t>(k) - 1]) : here;
  };
  slow_scale_.resize(static_cast<size_t>(slow_.padded));
  bound_inverse_.resize(slow_scale_.size());
  for (size_t p = 0; p < slow_scale_.size(); ++p) {
    const int64_t k = slow_.interval[p];
    const double e = slow_.part[p], v = at(velocity_scale_, k, e);
    const bool given = (fixed_begin_ && k == 0 && e == 0) || (fixed_end_ && k + 1 == N && e == 1);
    slow_scale_[p] = given ? 0 : 1 / at(acceleration_scale_, k, e);
    bound_inverse_[p] = given ? 0 : std::max(slow_only_ ? 1.0 : 0.0, velocity_bound_[p] / (v * v));
    if (slow_only_ && ((fixed_begin_ && k == 0) || (fixed_end_ && k + 1 == N))) bound_inverse_[p] *= 1 - 1e-9;
  }
  fast_scale_.resize(static_cast<size_t>(fast_.padded));
  for (size_t p = 0; p < fast_scale_.size(); ++p) fast_scale_[p] = 1 / jerk_scale_[static_cast<size_t>(fast_.interval[p])];
}

double ThirdOrder::largest_constant() const {
  double most = kInfinity;
  for (size_t p = 0; p < static_cast<size_t>(slow_.padded); ++p) {
    if (bound_inverse_[p] > 0) most = std::min(most, 1 / bound_inverse_[p]);
  }
  for (int64_t j = 0; j < dof_; ++j) {
    const size_t i = static_cast<size_t>(j);
    for (int64_t p = 0; p < slow_.padded; ++p) {
      const double q2 = slow_.q2[static_cast<size_t>(j * slow_.padded + p)] * slow_scale_[static_cast<size_t>(p)];
      const double ratio = std::max(q2 * inverse_[0][i], q2 * inverse_[1][i]);
      if (ratio * most > 1) most = 1 / ratio;
    }
    double steepest = 0;
    for (int64_t p = 0; p < fast_.padded; ++p) {
      steepest = std::max(steepest, std::abs(fast_.q3[static_cast<size_t>(j * fast_.padded + p)]) * fast_scale_[static_cast<size_t>(p)]);
    }
    steepest *= inverse_[2][i];
    if (steepest > 0) most = std::min(most, std::pow(steepest, -2.0 / 3.0));
  }
  return std::isfinite(most) ? most : 1.0;
}

Rows ThirdOrder::rows_of(bool jerk) {
  const Points& points = jerk ? fast_ : slow_;
  Rows rows{};
  rows.n = points.padded;
  rows.dof = dof_;
  rows.q1 = points.q1.data();
  rows.q2 = points.q2.data();
  rows.q3 = points.q3.data();
  rows.scale = (jerk ? fast_scale_ : slow_scale_).data();
  rows.upper = (jerk ? inverse_jerk_ : inverse_[0]).data();
  rows.lower = (jerk ? inverse_[2] : inverse_[1]).data();
  for (int side = 0; side < 2; ++side) {
    std::vector<double>* const m = multipliers_ + (jerk ? 8 : 0) + 4 * side;
    rows.z[side] = m[0].data();
    rows.l[side] = m[1].data();
    rows.dz[side] = m[2].data();
    rows.dl[side] = m[3].data();
  }
  return rows;
}

// Slacks at the rows' values, at least `floor`, and multipliers for a barrier.
void ThirdOrder::begin(double floor, double barrier) {
  Y_ = sum(b_, unknowns_) / static_cast<double>(unknowns_);
  for (size_t j = 0; j < inverse_jerk_.size(); ++j) inverse_jerk_[j] = inverse_[2][j] * std::sqrt(Y_);
  const auto fill = [](std::vector<double>& values, double x) { std::fill(values.begin(), values.end(), x); };
  for (int i = 0; i < 16; i += 4) {
    fill(multipliers_[i], floor);
    for (int k = 1; k < 4; ++k) fill(multipliers_[i + k], 0);
  }
  fill(bound_z_, floor);
  for (auto* each : {&bound_l_, &bound_dz_, &bound_dl_}) fill(*each, 0);
  fill(db_, 0);
  sum_up(0, 0);
  for (int i = 0; i < 16; i += 4) {
    for (size_t k = 0; k < multipliers_[i].size(); ++k) multipliers_[i + 1][k] = barrier / multipliers_[i][k];
  }
  for (size_t k = 0; k < bound_z_.size(); ++k) bound_l_[k] = barrier / bound_z_[k];
}

// Takes a step, and sums up the matrix and the right sides.
void ThirdOrder::sum_up(double primal, double dual) {
  const RowLoops& loops = row_loops();
  for (size_t i = 0; i < b_.size(); ++i) b_[i] += primal * db_[i];
  slow_.spread(b_, work_slow_[kY].data(), work_slow_[kU].data(), work_slow_[kW].data());
  fast_.spread(b_, work_fast_[kY].data(), work_fast_[kU].data(), work_fast_[kW].data());
  loops.rates(slow_.padded, work_slow_[kY].data(), Y_, work_slow_[kR].data(), work_slow_[kSlope].data());
  loops.rates(fast_.padded, work_fast_[kY].data(), Y_, work_fast_[kR].data(), work_fast_[kSlope].data());
  const Sums slow = sums_of(work_slow_), fast = sums_of(work_fast_);
  loops.acceleration_sums(rows_of(false), state_of(work_slow_), primal, dual, slow);
  loops.jerk_sums(rows_of(true), state_of(work_fast_), primal, dual, fast);

  // Velocity rows and the objective depend on y only.
  const int64_t N = base.intervals();
  const double each = 1.0 / static_cast<double>(4 * N);
  for (int64_t p = 0; p < slow_.padded; ++p) {
    const size_t k = static_cast<size_t>(p);
    const double y = work_slow_[kY][k], inverse = bound_inverse_[k], s = 1 - y * inverse;
    const double z = std::max(bound_z_[k] + primal * bound_dz_[k], s), l = bound_l_[k] + dual * bound_dl_[k];
    bound_z_[k] = z;
    bound_l_[k] = l;
    const double theta = l / z;
    slow.matrix[0][p] += theta * inverse * inverse;
    slow.right[0][p] -= inverse * (l - theta * s);
    slow.right[3][p] -= inverse / z;
    slow.right[6][p] -= inverse * l;
    slow.gap[p] += z * l;
    slow.least[p] = std::min(slow.least[p], s);
    if (p <= 3 * N) {  // four points in each interval: those at nodes belong to two
      const double weight = p > 0 && p < N ? 2 * each : each, r = work_slow_[kR][k];
      const double slope = weight * work_slow_[kSlope][k];  // of the objective
      slow.matrix[0][p] += weight * 0.75 * r / (y * y);
      slow.right[0][p] -= slope;
      slow.right[6][p] -= slope;
    }
  }
}

void ThirdOrder::solve_linear() {
  const size_t n = b_.size();
  double *const d = diagonal_[0].data(), *const e = diagonal_[1].data(), *const f = diagonal_[2].data();
  double* const x = db_.data();
  // Positive definite: without pivoting. e and f become the factors below the diagonal.
  for (size_t i = 0; i < n; ++i) {
    const double inverse = 1 / d[i];
    if (i + 1 < n) {
      const double first = e[i] * inverse;
      d[i + 1] -= first * e[i];
      if (i + 2 < n) {
        const double second = f[i] * inverse;
        e[i + 1] -= first * f[i];
        d[i + 2] -= second * f[i];
        x[i + 2] -= second * x[i];
        f[i] = second;
      }
      x[i + 1] -= first * x[i];
      e[i] = first;
    }
    x[i] *= inverse;
  }
  for (size_t i = n; i-- > 0;) {
    if (i + 1 < n) x[i] -= e[i] * x[i + 1];
    if (i + 2 < n) x[i] -= f[i] * x[i + 2];
  }
}

bool ThirdOrder::iterate(int most) {
  const RowLoops& loops = row_loops();
  const size_t n = b_.size();
  const double rows = static_cast<double>((2 * dof_ + 1) * slow_.padded + 2 * dof_ * fast_.padded);
  double primal = 0, dual = 0, least_step = 1;
  for (int step = 0;; ++step) {
    sum_up(primal, dual);
    const double gap = sum(work_slow_[kGap], slow_.padded) + sum(work_fast_[kGap], fast_.padded);
    double least = 1;
    for (int64_t p = 0; p < slow_.padded; ++p) least = std::min(least, work_slow_[kLeast][static_cast<size_t>(p)]);
    for (int64_t p = 0; p < fast_.padded; ++p) least = std::min(least, work_fast_[kLeast][static_cast<size_t>(p)]);
    if (!std::isfinite(gap)) return false;
    if (gap < tolerance && least > -tolerance) return true;
    if (step == most) return gap < 1e-2 && least > -1e-3;
    ++iterations_;

    for (int i = 0; i < 3; ++i) {
      std::fill(diagonal_[i].begin(), diagonal_[i].end(), 0.0);
      std::fill(right_[i].begin(), right_[i].end(), 0.0);
    }
    for (const bool jerk : {false, true}) {
      const Points& points = jerk ? fast_ : slow_;
      const Sums sums = sums_of(jerk ? work_fast_ : work_slow_);
      const double* weights[6];
      for (int i = 0; i < 6; ++i) weights[i] = points.weight[i].data();
      loops.to_coefficients(points.padded, weights, points.curvature, jerk, sums);
      for (int64_t p = 0; p < points.padded; ++p) {
        const size_t k = static_cast<size_t>(points.interval[static_cast<size_t>(p)]);
        diagonal_[0][k] += sums.matrix[0][p];
        diagonal_[1][k] += sums.matrix[1][p];
        diagonal_[2][k] += sums.matrix[2][p];
        diagonal_[0][k + 1] += sums.matrix[3][p];
        diagonal_[1][k + 1] += sums.matrix[4][p];
        diagonal_[0][k + 2] += sums.matrix[5][p];
        for (size_t a = 0; a < 3; ++a) {
          for (size_t i = 0; i < 3; ++i) right_[i][k + a] += sums.right[3 * i + a][p];
        }
      }
    }
    const auto fix = [&](size_t i) {
      diagonal_[0][i] = 1;
      diagonal_[1][i] = diagonal_[2][i] = 0;
      if (i > 0) diagonal_[1][i - 1] = 0;
      if (i > 1) diagonal_[2][i - 2] = 0;
      for (auto& right : right_) right[i] = 0;
    };
    if (fixed_begin_) fix(0), fix(1);
    if (fixed_end_) fix(n - 1), fix(n - 2);
    double residual = 0;
    for (size_t i = 0; i < n; ++i) residual = std::max(residual, std::abs(right_[2][i]) * b_[i]);
    double centre = least_step > 0.9 ? 0.05 : least_step > 0.5 ? 0.2 : least_step > 0.1 ? 0.5 : 0.9;
    if (static_cast<double>(n) * residual > std::max(gap / 2, kLeastResidual)) centre = 1;
    const double mu = centre * gap / rows;
    for (size_t i = 0; i < n; ++i) db_[i] = right_[0][i] + mu * right_[1][i];
    solve_linear();

    double shrink_z = 1e-300, shrink_l = 1e-300;
    for (const bool jerk : {false, true}) {
      const Points& points = jerk ? fast_ : slow_;
      std::vector<double>* const work = jerk ? work_fast_ : work_slow_;
      points.spread(db_, work[kStepY].data(), work[kStepU].data(), work[kStepW].data());
      const Step by{work[kStepY].data(), work[kStepU].data(), work[kStepW].data()};
      const Ratios ratios{work[kShrinkZ].data(), work[kShrinkL].data()};
      (jerk ? loops.jerk_steps : loops.acceleration_steps)(rows_of(jerk), state_of(work), by, mu, ratios);
      for (size_t p = 0; p < static_cast<size_t>(points.padded); ++p) {
        shrink_z = std::max(shrink_z, work[kShrinkZ][p]);
        shrink_l = std::max(shrink_l, work[kShrinkL][p]);
        const double change = work[kStepY][p] / work[kY][p];  // y stays within 0.1 and 4 times its value
        shrink_z = std::max({shrink_z, -change * (0.995 / 0.9), change * (0.995 / 3)});
      }
    }
    for (size_t p = 0; p < bound_z_.size(); ++p) {
      const double z = bound_z_[p], l = bound_l_[p], inverse = bound_inverse_[p];
      const double next = 1 - (work_slow_[kY][p] + work_slow_[kStepY][p]) * inverse;
      bound_dz_[p] = next - z;
      bound_dl_[p] = (mu - l * next) / z;
      shrink_z = std::max(shrink_z, 1 - next / z);
      shrink_l = std::max(shrink_l, -bound_dl_[p] / l);
    }
    primal = std::min(1.0, 0.995 / shrink_z);
    dual = std::min(1.0, 0.995 / shrink_l);
    least_step = std::min(primal, dual);
    if (!std::isfinite(primal) || !std::isfinite(dual)) return false;
  }
}

Status ThirdOrder::solve_held(const Path& path, const Limits& limits, const Ends& ends, bool slow_only) {
  form(path, limits, slow_only);
  iterations_ = rounds_ = 0;
  stretched_ = 1;
  const int64_t N = base.intervals();
  const double h = base.h;
  // What the start gives: y = (v / s')^2 and u = (a - s'' y) / s'. At rest b is free, because there s' = 0.
  const auto given = [&](int64_t interval, double e, double speed, double acceleration, double* y, double* u) {
    double s[4];
    base.evaluate(interval, e, s);
    *y = speed * speed / (s[1] * s[1]);
    *u = (acceleration - s[2] * *y) / s[1];
  };
  fixed_begin_ = !ends.rests_before();
  fixed_end_ = !ends.rests_after();
  set_scales();
  std::fill(b_.begin(), b_.end(), 0.7 * largest_constant());
  double y, u;
  const auto fix_ends = [&] {
    if (fixed_begin_) {
      given(0, 0, ends.start_speed, ends.start_acceleration, &y, &u);
      b_[0] = y - u * h;
      b_[1] = y + u * h;
    }
    if (fixed_end_) {
      given(N - 1, 1, ends.end_speed, ends.end_acceleration, &y, &u);
      b_[static_cast<size_t>(N)] = y - u * h;
      b_[static_cast<size_t>(N) + 1] = y + u * h;
    }
  };
  if (fixed_begin_ || fixed_end_) {
    double from = 0, to = 0;
    if (fixed_begin_) given(0, 0, ends.start_speed, ends.start_acceleration, &from, &u);
    if (fixed_end_) given(N - 1, 1, ends.end_speed, ends.end_acceleration, &to, &u);
    if (!fixed_begin_) from = b_[0];
    if (!fixed_end_) to = b_[0];
    for (size_t i = 0; i < b_.size(); ++i) {
      b_[i] = from + (to - from) * static_cast<double>(i) / static_cast<double>(b_.size() - 1);
    }
    fix_ends();
    for (double value : b_) {
      if (!(value > 0)) return Status::kNotConverged;
    }
  }
  const double weight = 1.0 / static_cast<double>(4 * N);
  begin(0.01, 0.05 * weight);  // with more, jerk rows push y to 0 where nothing else holds it
  if (!iterate(kMostIterations)) return Status::kNotConverged;
  double kappa = 1;
  for (;; ++rounds_) {
    worst_ = worst_ratio(rounds_ < kMostRounds, &kappa);
    if (worst_ <= kAlmostHeld || rounds_ == kMostRounds) break;
    if (!solve_again()) break;
  }
  if (!fixed_begin_ && !fixed_end_ && !slow_only) {
    stretch(kappa);
    worst_ = 1;
    return Status::kDone;
  }
  if (!fixed_begin_ && !fixed_end_ && kappa > 1) {
    stretch(kappa);
    worst_ = 1;
  } else {
    set_times();
  }
  return worst_ <= 1 + 2e-3 ? Status::kDone : Status::kExceeds;
}

// From the last solution, after limits were tightened.
bool ThirdOrder::solve_again() {
  const std::vector<double> kept = b_;
  set_scales();
  begin(3e-3, 0.003 / static_cast<double>(4 * base.intervals()));
  if (iterate(kMostIterations)) return true;
  b_ = kept;
  return false;
}

bool ThirdOrder::tighten(const std::vector<double>& ratios) {
  for (size_t k = 0; k < velocity_scale_.size(); ++k) {
    if (ratios[3 * k] > kHeld) velocity_scale_[k] /= ratios[3 * k];
    if (ratios[3 * k + 1] > kHeld) acceleration_scale_[k] /= ratios[3 * k + 1];
    if (ratios[3 * k + 2] > kHeld) jerk_scale_[k] /= ratios[3 * k + 2];
  }
  for (double& b : b_) b *= stretched_ * stretched_;
  const double was = stretched_;
  stretched_ = 1;
  ++rounds_;
  const bool solved = solve_again();
  if (!solved) stretch(was);
  else set_times();
  return solved;
}

double ThirdOrder::worst_ratio(bool tighten, double* kappa) {
  const RowLoops& loops = row_loops();
  const int64_t N = base.intervals(), n = fine_.padded;
  std::vector<double>* const work = work_fast_;
  fine_.spread(b_, work[kY].data(), work[kU].data(), work[kW].data());
  for (size_t p = 0; p < static_cast<size_t>(n); ++p) work[kR][p] = std::sqrt(work[kY][p]);
  Rows rows{};
  rows.n = n;
  rows.dof = dof_;
  rows.q1 = fine_.q1.data();
  rows.q2 = fine_.q2.data();
  rows.q3 = fine_.q3.data();
  ratio_.resize(static_cast<size_t>(2 * dof_ * n));
  std::vector<double> worst[3];
  for (auto& each : worst) each.assign(static_cast<size_t>(N), 0.0);
  for (size_t p = 0; p < static_cast<size_t>(n); ++p) {
    double& at = worst[0][static_cast<size_t>(fine_.interval[p])];
    at = std::max(at, work[kY][p] * fine_velocity_bound_[p]);
  }
  for (double& each : worst[0]) each = std::sqrt(each);
  for (int kind = 1; kind < 3; ++kind) {
    rows.upper = inverse_[0].data();
    rows.lower = inverse_[kind].data();
    kind == 1 ? loops.acceleration_ratios(rows, state_of(work), ratio_.data())
              : loops.jerk_ratios(rows, state_of(work), work[kR].data(), ratio_.data());
    std::vector<double>& most = worst[kind];
    for (int64_t row = 0; row < 2 * dof_; ++row) {
      const double* const at = ratio_.data() + row * n;
      for (int64_t e = 0; e + 2 < 9; e += 2) {  // the peak of the parabola through three neighbours
        const double *const a = at + e * N, *const b = a + N, *const c = b + N;
        for (int64_t k = 0; k < N; ++k) {
          const double curvature = a[k] - 2 * b[k] + c[k], slope = (c[k] - a[k]) / 2;
          const double high = std::max(std::max(a[k], b[k]), c[k]);
          const double bend = std::min(curvature, -1e-300), turn = std::abs(slope) < -bend ? slope : 0.0;
          most[static_cast<size_t>(k)] = std::max(most[static_cast<size_t>(k)], std::max(high, b[k] - turn * turn / (2 * bend)));
        }
      }
      for (int64_t p = 9 * N; p < n; ++p) {
        double& of = most[static_cast<size_t>(fine_.interval[static_cast<size_t>(p)])];
        of = std::max(of, at[p]);
      }
    }
  }
  double all = 0, stretch = 0;
  for (size_t k = 0; k < static_cast<size_t>(N); ++k) {
    const double v = worst[0][k], a = worst[1][k], j = worst[2][k];
    all = std::max({all, v, a, j});
    stretch = std::max({stretch, v, std::sqrt(a), std::cbrt(j)});
    if (!tighten) continue;
    if (v > kAlmostHeld) velocity_scale_[k] /= v;
    if (a > kAlmostHeld) acceleration_scale_[k] /= a;
    if (j > kAlmostHeld) jerk_scale_[k] /= j;
  }
  *kappa = stretch;
  return all;
}

void ThirdOrder::stretch(double factor) {
  for (double& b : b_) b /= factor * factor;
  stretched_ *= factor;
  set_times();
}

void ThirdOrder::rate_at(int64_t k, double e, double* yuw) const {
  const double* const b = b_.data() + k;
  const double f = 1 - e, h = base.h;
  yuw[0] = f * f / 2 * b[0] + (0.5 + e - e * e) * b[1] + e * e / 2 * b[2];
  yuw[1] = (f * (b[1] - b[0]) + e * (b[2] - b[1])) / (2 * h);
  yuw[2] = (b[0] - 2 * b[1] + b[2]) / (2 * h * h);
}

// Gauss's quadrature of d tau / sqrt(y), five points.
double ThirdOrder::time_within(int64_t k, double e) const {
  constexpr double kAt[] = {0.046910077030668, 0.230765344947158, 0.5, 0.769234655052842, 0.953089922969332};
  constexpr double kWeight[] = {0.118463442528095, 0.239314335249683, 0.284444444444444, 0.239314335249683, 0.118463442528095};
  double total = 0, yuw[3];
  for (int i = 0; i < 5; ++i) {
    rate_at(k, e * kAt[i], yuw);
    total += kWeight[i] / std::sqrt(yuw[0]);
  }
  return total * e * base.h;
}

void ThirdOrder::set_times() {
  const int64_t N = base.intervals();
  t_.assign(static_cast<size_t>(N) + 1, 0.0);
  for (int64_t k = 0; k < N; ++k) t_[static_cast<size_t>(k) + 1] = t_[static_cast<size_t>(k)] + time_within(k, 1);
}

}  // namespace traj_integrator::retiming
