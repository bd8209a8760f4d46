#include "third_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace traj_integrator::retiming {
namespace {

constexpr double kTightenedAt[] = {1e-2, 1e-3, 1e-4};  // gaps
constexpr double kMostAtOnce = 1.3;   // largest factor by which a limit is lowered on the way
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kSlowParts = 3, kFastParts = 2;  // of each interval, between its points

constexpr int kMostIterations = 60, kMostChoices = 4;
// Least slack of rows that are near to binding or missed.
constexpr double kLeastSlack = 1e-4;
// Rounding leaves this much of the dual residual.
constexpr double kLeastResidual = 1e-5;
// Steps of less than this part of the wanted length; so many of them show that there is no progress.
constexpr double kShort = 0.1;
constexpr int kMostShort = 12;

}  // namespace

void ThirdOrder::form(const Path& path, const Limits& limits) {
  dof_ = path.dof();
  const int64_t N = base.intervals();
  knots_ = places_of_knots(path, base);
  slow_.form(path, base, limits, knots_, kSlowParts, false);
  fast_.form(path, base, limits, knots_, kFastParts, true);
  fine_.form(path, base, limits, knots_, kFineParts, true, true);
  for (int kind = 0; kind < kKinds; ++kind) inverse_[kind] = limits.inverse[kind];
  inverse_jerk_.resize(dof_);
  for (Points* const points : {&slow_, &fast_, &fine_}) {
    points->lower = inverse_[kLowest].data();
    points->upper = (points == &fast_ ? inverse_jerk_ : inverse_[kHighest]).data();
  }
  fine_.bound = fine_.velocity_bound;
  const double each = 1.0 / static_cast<double>((kSlowParts + 1) * N);
  std::fill_n(slow_.objective, slow_.padded, 0.0);
  for (int64_t p = 0; p < slow_.count; ++p) {  // four in each interval: nodes belong to two of them
    slow_.objective[p] = slow_.part[p] == 0 && slow_.interval[p] > 0 ? 2 * each : each;
  }
  b_.assign(N + 2, 0.0);
  for (auto* each : {&db_, &diagonal_[0], &diagonal_[1], &diagonal_[2]}) each->assign(N + 4, 0.0);
  for (auto& right : right_) right.assign(N + 2, 0.0);
}

// Coefficients to begin with.
void ThirdOrder::set_begin(const Ends& ends) {
  // Values given by the ends: y = (v / s')^2 and u = (a - s'' y) / s'. At rest b is free, because there s' = 0.
  const auto given = [&](int64_t interval, double e, double speed, double acceleration, double* y, double* u) {
    double s[4];
    base.evaluate(interval, e, s);
    *y = speed * speed / (s[1] * s[1]);
    *u = (acceleration - s[2] * *y) / s[1];
  };
  const double usual = 0.95 * largest_constant(), h = base.h;
  double from = usual, from_u = 0, to = usual, to_u = 0;
  if (fixed_begin_) given(0, 0, ends.start_speed, ends.start_acceleration, &from, &from_u);
  if (fixed_end_) given(base.intervals() - 1, 1, ends.end_speed, ends.end_acceleration, &to, &to_u);
  const size_t n = b_.size();
  for (size_t i = 0; i < n; ++i) b_[i] = from + (to - from) * static_cast<double>(i) / static_cast<double>(n - 1);
  if (fixed_begin_) {
    b_[0] = from - from_u * h;
    b_[1] = from + from_u * h;
  }
  if (fixed_end_) {
    b_[n - 2] = to - to_u * h;
    b_[n - 1] = to + to_u * h;
  }
}

// `careful`: with steps along the centre, and without tightening on the way.
bool ThirdOrder::converges(const Ends& ends, double part, bool careful) {
  careful_ = careful;
  for (auto& scale : scale_) scale.assign(base.intervals(), part);
  set_scales();
  set_begin(ends);
  for (double value : b_) {
    if (!(value > 0)) return false;
  }
  // With a larger barrier, jerk rows push y to 0 where nothing else holds it.
  begin(0.01, 0.05 / static_cast<double>(4 * base.intervals()));
  for (const double gap : kTightenedAt) {  // while slacks and multipliers are large enough to follow
    if (careful) break;
    if (!iterate(gap, careful)) return false;
    tighten_between();
    set_scales();
    choose_rows();
  }
  return finish(careful);
}

bool ThirdOrder::is_missed() {
  for (Points* const points : {&slow_, &fast_}) points->form_all(kLeastSlack);
  sum_up({0, 0, false});
  return least_ < -tolerance;
}

void ThirdOrder::choose_rows() {
  for (Points* const points : {&slow_, &fast_}) points->leave_out(gap_ / rows());
  widens_ = true;
}

bool ThirdOrder::finish(bool patient) {
  for (int attempt = 0; attempt < kMostChoices; ++attempt) {
    if (!iterate(tolerance, patient)) return false;
    if (careful_ || !is_missed()) return true;
    choose_rows();
  }
  return false;
}

Status ThirdOrder::solve(const Path& path, const Limits& limits, const Ends& ends, bool slow_only, double part) {
  form(path, limits);
  slow_only_ = slow_only;
  stretched_ = 1;
  fixed_begin_ = !ends.rests_before();
  fixed_end_ = !ends.rests_after();
  if (!converges(ends, part, false) && !converges(ends, part, true)) return Status::kNotConverged;
  set_times();
  return Status::kDone;
}

void ThirdOrder::stretch(double factor) {
  for (double& b : b_) b /= factor * factor;
  stretched_ *= factor;
  set_times();
}

void ThirdOrder::slow(double part) {
  const double last = static_cast<double>(b_.size() - 1);
  const auto away = [&](double from_end) {
    const double e = std::max(from_end - 1, 0.0) / (last - 1);  // two coefficients are an end's
    return e * e * (3 - 2 * e);
  };
  for (size_t i = 0; i < b_.size(); ++i) {
    const double at = static_cast<double>(i);
    b_[i] *= 1 - part * (fixed_begin_ ? away(at) : 1) * (fixed_end_ ? away(last - at) : 1);
  }
  set_times();
}

bool ThirdOrder::tighten(const std::vector<double>& ratios) {
  for (size_t i = 0; i < ratios.size(); ++i) {
    if (ratios[i] > 1) scale_[i % 3][i / 3] /= ratios[i] * kBeyond;
  }
  const std::vector<double> kept = b_;
  for (double& b : b_) b *= stretched_ * stretched_;
  set_scales();
  // From the last solution; slacks are wider where the ends leave less room.
  begin(fixed_begin_ || fixed_end_ ? 1e-3 : kLeastSlack, 3e-4 / static_cast<double>(4 * base.intervals()));
  choose_rows();
  careful_ = false;
  const bool solved = finish(true);
  if (solved) stretched_ = 1;
  else b_ = kept;
  set_times();
  return solved;
}

void ThirdOrder::tighten_between() {
  std::vector<double> worst[3];
  for (auto& each : worst) each.assign(base.intervals(), 0.0);
  double* const to[] = {worst[0].data(), worst[1].data(), worst[2].data()};
  row_loops().peaks(fine_, inverse_[kJerk].data(), b_.data(), to);
  for (double& square : worst[0]) square = std::sqrt(square);
  for (int kind = 0; kind < 3; ++kind) {
    for (size_t k = 0; k < worst[kind].size(); ++k) {
      if (worst[kind][k] > kHeld) scale_[kind][k] /= std::min(worst[kind][k], kMostAtOnce);
    }
  }
}

// Shares of the limits that may be used at the points; rows whose coefficients are all given are removed.
void ThirdOrder::set_scales() {
  const int64_t last = base.intervals() - 1;
  for (int64_t p = 0; p < slow_.padded; ++p) {
    const int64_t k = slow_.interval[p];
    const double e = slow_.part[p];
    const auto at = [&](int kind) { return e == 0 && k > 0 ? std::min(scale_[kind][k], scale_[kind][k - 1]) : scale_[kind][k]; };
    const bool given = (fixed_begin_ && k == 0 && e == 0) || (fixed_end_ && k == last && e == 1);
    slow_.scale[p] = given ? 0 : 1 / at(1);
    slow_.bound[p] = given ? 0 : std::max(slow_only_ ? 1.0 : 0.0, slow_.velocity_bound[p] / (at(0) * at(0)));
    if (slow_only_ && ((fixed_begin_ && k == 0) || (fixed_end_ && k == last))) slow_.bound[p] *= 1 - 1e-9;
  }
  for (int64_t p = 0; p < fast_.padded; ++p) fast_.scale[p] = 1 / scale_[2][fast_.interval[p]];
}

// The interior-point method.
void ThirdOrder::begin(double floor, double barrier) {
  const double Y = std::accumulate(b_.begin(), b_.end(), 0.0) / static_cast<double>(b_.size());
  for (int64_t j = 0; j < dof_; ++j) inverse_jerk_[j] = inverse_[kJerk][j] * std::sqrt(Y);
  widens_ = false;
  for (Points* const points : {&slow_, &fast_}) {
    points->Y = Y;
    points->fill(floor, 0);
    points->form_all(floor);
  }
  sum_up({0, 0, false});
  for (Points* const points : {&slow_, &fast_}) points->fill(floor, barrier);
}

void ThirdOrder::sum_up(const Advance& last) {
  for (size_t i = 0; i < b_.size() && last.primal > 0; ++i) b_[i] += last.primal * db_[i];
  Sums sums;
  for (int64_t i = 0; i < kSums; ++i) {
    sums_[i].assign(b_.size() + 2, 0.0);
    sums.of[i] = sums_[i].data() + 2;
  }
  std::fill_n(sums.gap, kLanes, 0.0);
  std::fill_n(sums.least, kLanes, 1.0);
  for (const Points* const points : {&slow_, &fast_}) row_loops().sum_up(*points, b_.data(), last, sums);
  gap_ = std::accumulate(sums.gap, sums.gap + kLanes, 0.0);
  least_ = *std::min_element(sums.least, sums.least + kLanes);
}

void ThirdOrder::solve_linear() {
  const int64_t n = static_cast<int64_t>(b_.size());
  double *const d = diagonal_[0].data(), *const e = diagonal_[1].data(), *const f = diagonal_[2].data();
  double* const x = db_.data();
  // Positive definite: without pivoting. e and f become the factors below the diagonal; behind the last row they are 0.
  for (int64_t i = 0; i < n; ++i) {
    const double inverse = 1 / d[i], first = e[i] * inverse, second = f[i] * inverse;
    d[i + 1] -= first * e[i];
    e[i + 1] -= first * f[i];
    d[i + 2] -= second * f[i];
    x[i + 1] -= first * x[i];
    x[i + 2] -= second * x[i];
    x[i] *= inverse;
    e[i] = first;
    f[i] = second;
  }
  for (int64_t i = n; i-- > 0;) x[i] -= e[i] * x[i + 1] + f[i] * x[i + 2];
}

// The matrix and the right sides over the coefficients: each belongs to three intervals.
void ThirdOrder::gather() {
  const size_t n = b_.size();
  const auto of = [&](int i, size_t k) { return sums_[i].data() + k; };  // of the interval k - 2
  for (size_t k = 0; k < n; ++k) {
    diagonal_[0][k] = *of(0, k + 2) + *of(3, k + 1) + *of(5, k);
    diagonal_[1][k] = *of(1, k + 2) + *of(4, k + 1);
    diagonal_[2][k] = *of(2, k + 2);
    for (int i = 0; i < 3; ++i) right_[i][k] = *of(6 + 3 * i, k + 2) + *of(7 + 3 * i, k + 1) + *of(8 + 3 * i, k);
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
}

double ThirdOrder::rows() const { return static_cast<double>(slow_.padded + 2 * kLanes * (slow_.formed() + fast_.formed())); }

bool ThirdOrder::iterate(double until, bool patient) {
  const size_t n = b_.size();
  const double rows = this->rows();
  Advance last{0, 0, widens_};
  double least_step = 1;
  int short_steps = 0;
  widens_ = false;
  for (int step = 0;; ++step) {
    sum_up(last);
    if (!std::isfinite(gap_)) return false;
    if (gap_ < until && least_ > -until) return true;
    if (step == kMostIterations) return gap_ < 1e-2 && least_ > -1e-3;
    ++iterations;
    gather();
    double residual = 0;
    for (size_t i = 0; i < n; ++i) residual = std::max(residual, std::abs(right_[2][i]) * b_[i]);
    double centre = least_step > 0.9 ? 0.05 : least_step > 0.5 ? 0.2 : least_step > 0.1 ? 0.3 : 0.9;
    if (static_cast<double>(n) * residual > std::max(gap_ / 2, kLeastResidual)) {
      centre = careful_ ? 1 : std::max(centre, 0.3);
    }
    const double mu = centre * gap_ / rows;
    for (size_t i = 0; i < n; ++i) db_[i] = right_[0][i] + mu * right_[1][i];
    solve_linear();
    Shrink most{1e-300, 1e-300};
    for (const Points* const points : {&slow_, &fast_}) row_loops().step(*points, b_.data(), db_.data(), mu, most);
    last = {std::min(1.0, 0.995 / most.z), std::min(1.0, 0.995 / most.l), false};
    least_step = std::min(last.primal, last.dual);
    short_steps += least_step < kShort;
    if (!std::isfinite(least_step) || (!patient && short_steps > kMostShort)) return false;
  }
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
  t_.assign(N + 1, 0.0);
  for (int64_t k = 0; k < N; ++k) t_[k + 1] = t_[k] + time_within(k, 1);
}

// The envelope theorem: the multipliers times the derivatives of the rows.
void ThirdOrder::gradient(const Gradient& out) const {
  const double whole = base.h * static_cast<double>(base.intervals()) / std::sqrt(slow_.Y) * stretched_;
  const double stretch = stretched_ * stretched_;  // of the solution before it was stretched
  int64_t at = 0;
  for (const Points* const points : {&slow_, &fast_}) {
    for (int64_t p = 0; p < points->padded; ++p, ++at) {
      out.piece[at] = points->piece[p];
      base.evaluate(points->interval[p], points->part[p], out.phase + 4 * at);
      double yuw[3];
      rate_at(points->interval[p], points->part[p], yuw);
      const double y = yuw[0] * stretch, u = yuw[1] * stretch, w = yuw[2] * stretch;
      double* const adjoint = out.adjoint + 3 * dof_ * at;  // of Q1, Q2, Q3: [3, D]
      for (int64_t j = 0; j < dof_; ++j) {
        const int64_t k = points->at(p, j);
        // For the rows' values.
        const double high = -whole * points->multiplier(p, j, 0), low = -whole * points->multiplier(p, j, 1);
        const double q1 = points->q1[k], q2 = points->q2[k], q3 = points->q3[k], scale = points->scale[p];
        if (points->of_jerk) {
          const double weight = (low - high) * inverse_jerk_[j] * scale;
          adjoint[j] = weight * w;
          adjoint[dof_ + j] = 3 * weight * u;
          adjoint[2 * dof_ + j] = weight * y;
          out.limits[3 * dof_ + j] -= weight * (q3 * y + 3 * q2 * u + q1 * w);
          continue;
        }
        const double up = inverse_[kHighest][j] * scale, down = inverse_[kLowest][j] * scale;
        const double value = q2 * y + q1 * u, weight = -(high * up + low * down);
        adjoint[j] = weight * u;
        adjoint[dof_ + j] = weight * y;
        adjoint[2 * dof_ + j] = 0;
        // The rest of the barrier at rows of the other sign is no derivative.
        out.limits[2 * dof_ + j] += high * std::max(value * up, 0.0);
        out.limits[dof_ + j] += low * std::max(value * down, 0.0);
        // The joint whose velocity bounds y.
        const double velocity = std::abs(q1) * inverse_[kVelocity][j];
        if (points->bound[p] > 0 && velocity * velocity == points->velocity_bound[p] && q1 != 0) {
          const double bound = 2 * y * points->bound[p] * -whole * points->bound_multiplier(p);
          adjoint[j] -= bound / q1;
          out.limits[j] += bound;
        }
      }
    }
  }
}

}  // namespace traj_integrator::retiming
