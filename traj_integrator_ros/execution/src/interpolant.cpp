// With a jerk that is constant in each piece, z = C w for contrasts z of observations (third divided differences: they
// do not see quadratics) and jerks w. Where rows have noise, too, z is Gaussian with the covariance s^2 (lambda E + G):
// G = C H^-1 C' of jerks whose variance is s^2 by the length of a piece, E of noise. Both are banded, and so it takes
// O(count) to find the likelihood of a lambda (Patterson and Thompson 1971), and the motion: w = H^-1 C' u and
// rows - lambda W^-1 D' u with u = (lambda E + G)^-1 z and contrasts D of rows.
#include "interpolant.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace traj_integrator::execution {
namespace {

constexpr long kOf = 4;          // observations of a contrast
constexpr long kBand = 4;        // diagonals of a covariance: contrasts further apart share nothing
constexpr long kMostPieces = 5;  // of a contrast, whose last two steps may have two each
constexpr long kFewestRows = 8;  // less say nothing about noise
constexpr double kSurely = 6.0;  // twice the logarithm of the likelihood that noise must gain; 2 takes corners for noise
constexpr double kHopeless = 30.0;  // the same: no larger lambda makes up for so much
// Of whitened contrasts, the least median in their rms: of noise it is 0.67, of a few corners among exact rows near 0.
constexpr double kSpread = 0.25;
// Of contrasts, the correlation with the next: of noise it is -0.75, of a few steps of an encoder -0.67, of corners of
// the velocity at least -0.5.
constexpr double kAlternates = -0.58;
constexpr double kFirst = 1e-2;               // the least lambda, relative to mean diagonals; less moves no row
constexpr double kRatio = 3.1622776601683795;  // of one lambda to the one before: noise within 1.8 times
constexpr long kLambdas = 29;                 // up to 1e12: windows of 100 rows
constexpr double kMostSigmas = 4.5;           // distance of a row, in its noise: beyond it is 1 of 150,000
constexpr double kSlower = 0.1;               // lambda of the next try if a row is further

// Position, velocity or acceleration at a time.
struct Observation {
  double time;
  long order;

  // Of the motion t^power / power!.
  double monomial(long power, double origin) const {
    if (order > power) return 0;
    const double t = time - origin;
    double value = 1;
    for (long k = 1; k <= power - order; ++k) value *= t / static_cast<double>(k);
    return value;
  }
  // After a jerk of 1 in a piece.
  double response(double begin, double end) const {
    const auto after = [this](double since) {
      const double t = std::max(time - since, 0.0);
      return order == 0 ? t * t * t / 6 : order == 1 ? t * t / 2 : t;
    };
    return after(begin) - after(end);
  }
};

struct Contrast {
  double weights[kOf];     // of observations
  double of_steps[kOf];    // of differences of rows, the same
  double jerks[kMostPieces];
  long first, pieces;
};

// A symmetric banded matrix, [size][kBand]: below[j][i] = (j, j - i), 0 where j < i.
struct Banded {
  std::vector<double> below;

  explicit Banded(long size) : below(size * kBand) {}
  double* of(long j) { return below.data() + j * kBand; }
  const double* of(long j) const { return below.data() + j * kBand; }
  long size() const { return static_cast<long>(below.size()) / kBand; }
  double mean_diagonal() const {
    double sum = 0;
    for (long j = 0; j < size(); ++j) sum += of(j)[0];
    return sum / static_cast<double>(size());
  }
};

// L D L' of the first `size` rows of lambda E + G. Before the first row there are some of zeros.
struct Factored {
  std::vector<double> lower, per_pivot;

  explicit Factored(long size) : lower((size + kBand) * kBand), per_pivot(size + kBand) {}
  double& pivot(long j) { return per_pivot[j + kBand]; }
  double* row(long j) { return &lower[(j + kBand) * kBand]; }
  // Returns the logarithm of the determinant.
  double factor(const Banded& noise, const Banded& motion, double lambda, long size);
  // Solves L y = z in place: y [kBand + size, columns] begins with rows of zeros.
  void forward(long columns, long size, double* y);
  void backward(long size, double* y);
};

double Factored::factor(const Banded& noise, const Banded& motion, double lambda, long size) {
  double product = 1, logarithm = 0;
  for (long j = 0; j < size; ++j) {
    const double *const e = noise.of(j), *const g = motion.of(j);
    const double *const one = row(j - 1), *const two = row(j - 2);
    double* const l = row(j);
    const double far = lambda * e[3] + g[3], middle = lambda * e[2] + g[2] - far * two[1];
    const double near = lambda * e[1] + g[1] - far * one[2] - middle * one[1];
    l[3] = far * pivot(j - 3), l[2] = middle * pivot(j - 2), l[1] = near * pivot(j - 1);
    const double own = lambda * e[0] + g[0] - far * l[3] - middle * l[2] - near * l[1];
    pivot(j) = 1 / own;
    product *= own;
    if (!(product > 1e-100 && product < 1e100)) {
      logarithm += std::log(product);
      product = 1;
    }
  }
  return logarithm + std::log(product);
}

void Factored::forward(long columns, long size, double* y) {
  for (long j = 0; j < size; ++j) {
    const double* const l = row(j);
    double* const own = y + (j + kBand) * columns;
    const double *const one = own - columns, *const two = one - columns, *const three = two - columns;
    for (long d = 0; d < columns; ++d) own[d] -= l[1] * one[d] + l[2] * two[d] + l[3] * three[d];
  }
}

void Factored::backward(long size, double* y) {
  for (long j = size - 1; j >= 0; --j) {
    double sum = 0;
    for (long i = 1; i < kBand && j + i < size; ++i) sum += row(j + i)[i] * y[j + kBand + i];
    y[j + kBand] = y[j + kBand] * pivot(j) - sum;
  }
}

class Interpolation {
 public:
  Interpolation(const RowsProblem& problem, const RowsResult& result);
  void run();

 private:
  void set_pieces();
  void set_contrasts();
  void set_covariances();
  const double* noisy(const Contrast& contrast) const { return given_.increments ? contrast.of_steps : contrast.weights; }
  void contrast_rows();
  void choose_lambdas();
  void whiten(long joint, double lambda, long size);
  bool is_noise(long joint, double lambda);
  void fit(long joint);
  bool moves_too_far(long joint, double lambda);
  void write(long joint) const;
  void write_piece(long piece, long joint, double position, double velocity, double acceleration) const;

  const RowsProblem& given_;
  const RowsResult& out_;
  const long count_, dof_;
  double unit_;                       // s, the mean step, by which times are dimensionless
  std::vector<double> times_;         // of rows
  std::vector<double> bounds_;        // of pieces
  std::vector<long> piece_of_;        // of rows, the one that begins there
  std::vector<double> noise_of_;      // variances of observations, or of steps between rows
  std::vector<Observation> observations_;
  std::vector<Contrast> contrasts_;
  Banded noise_, motion_;             // E and G
  double scale_;                      // of lambda: mean diagonal of G by that of E
  std::vector<double> z_;             // contrasts of rows, behind kBand rows of zeros
  std::vector<double> lambda_, variance_;
  Factored factored_;
  std::vector<double> u_;             // as z_, of one joint
  std::vector<double> w_, moved_;
};

long contrasts_of(long count, bool rests) { return std::max(count + (rests ? 2 : 0) - (kOf - 1), 0L); }

Interpolation::Interpolation(const RowsProblem& problem, const RowsResult& result)
    : given_(problem), out_(result), count_(problem.count), dof_(problem.dof),
      unit_((problem.times[count_ - 1] - problem.times[0]) / static_cast<double>(count_ - 1)),
      noise_(contrasts_of(count_, problem.rests)), motion_(noise_.size()), z_((noise_.size() + kBand) * dof_), lambda_(dof_),
      variance_(dof_), factored_(noise_.size()), u_(noise_.size() + kBand), moved_(count_) {}

void Interpolation::run() {
  set_pieces();
  set_contrasts();
  set_covariances();
  contrast_rows();
  choose_lambdas();
  for (long joint = 0; joint < dof_; ++joint) fit(joint);
}

// Acceleration and velocity of 0 at the end leave the motion the same freedom as an open end if its last two steps have
// two pieces each.
void Interpolation::set_pieces() {
  for (long k = 0; k < count_; ++k) times_.push_back((given_.times[k] - given_.times[0]) / unit_);
  for (long k = 0; k < count_; ++k) {
    piece_of_.push_back(static_cast<long>(bounds_.size()));
    bounds_.push_back(times_[k]);
    if (given_.rests && k >= count_ - 3 && k < count_ - 1) bounds_.push_back((times_[k] + times_[k + 1]) / 2);
  }
  w_.resize(bounds_.size());
  for (size_t k = 0; k < bounds_.size(); ++k) out_.knots[k] = bounds_[k] * unit_;
  for (long k = 0; k < count_; ++k) out_.knots[piece_of_[k]] = given_.times[k] - given_.times[0];
}

void Interpolation::set_contrasts() {
  for (double time : times_) observations_.push_back({time, 0});
  if (given_.rests) {
    observations_.push_back({times_.back(), 1});
    observations_.push_back({times_.back(), 2});
  }
  for (long j = 0; j < motion_.size(); ++j) {
    const Observation* const of = &observations_[j];
    Contrast contrast{};
    double basis[3][kOf], largest = 0;
    for (long power = 0; power < 3; ++power) {
      for (long i = 0; i < kOf; ++i) basis[power][i] = of[i].monomial(power, of[0].time);
    }
    for (long i = 0; i < kOf; ++i) {  // minors: orthogonal to all three
      const long a = i > 0 ? 0 : 1, b = i > 1 ? 1 : 2, c = i > 2 ? 2 : 3;
      const double minor = basis[0][a] * (basis[1][b] * basis[2][c] - basis[1][c] * basis[2][b]) -
                           basis[0][b] * (basis[1][a] * basis[2][c] - basis[1][c] * basis[2][a]) +
                           basis[0][c] * (basis[1][a] * basis[2][b] - basis[1][b] * basis[2][a]);
      contrast.weights[i] = i % 2 == 0 ? -minor : minor;
      largest = std::max(largest, std::abs(minor));
    }
    double sum = 0;
    for (long i = 0; i < kOf; ++i) {
      contrast.weights[i] /= largest;
      if (of[i].order == 0) sum += contrast.weights[i];
      contrast.of_steps[i] = -sum;
    }
    contrast.first = piece_of_[j];
    const long last = piece_of_[std::min(j + kOf - 1, count_ - 1)];
    contrast.pieces = last - contrast.first;
    for (long p = 0; p < contrast.pieces; ++p) {
      const double begin = bounds_[contrast.first + p], end = bounds_[contrast.first + p + 1];
      for (long i = 0; i < kOf; ++i) contrast.jerks[p] += contrast.weights[i] * of[i].response(begin, end);
    }
    contrasts_.push_back(contrast);
  }
}

void Interpolation::set_covariances() {
  noise_of_.resize(observations_.size());
  for (long k = 0; k < count_ - (given_.increments || given_.rests ? 1 : 0); ++k) {
    const double step = given_.increments ? given_.times[k + 1] - given_.times[k] : 1;
    noise_of_[k] = step * step;
  }
  for (long j = 0; j < motion_.size(); ++j) {
    const Contrast& own = contrasts_[j];
    for (long i = 0; i <= std::min(kBand - 1, j); ++i) {
      const Contrast& other = contrasts_[j - i];
      double of_noise = 0, of_motion = 0;
      for (long k = 0; k + i < kOf; ++k) {
        of_noise += noisy(own)[k] * noisy(other)[k + i] * noise_of_[j + k];
      }
      for (long p = own.first; p < std::min(other.first + other.pieces, own.first + own.pieces); ++p) {
        of_motion += own.jerks[p - own.first] * other.jerks[p - other.first] / (bounds_[p + 1] - bounds_[p]);
      }
      noise_.of(j)[i] = of_noise;
      motion_.of(j)[i] = of_motion;
    }
  }
  scale_ = motion_.size() > 0 && noise_.mean_diagonal() > 0 ? motion_.mean_diagonal() / noise_.mean_diagonal() : 0;
}

void Interpolation::contrast_rows() {
  for (long j = 0; j < motion_.size(); ++j) {
    for (long i = 0; i + 1 < kOf && j + i + 1 < count_; ++i) {
      const double *const from = given_.rows + (j + i) * dof_, *const to = from + dof_;
      for (long d = 0; d < dof_; ++d) z_[(j + kBand) * dof_ + d] += contrasts_[j].of_steps[i] * (to[d] - from[d]);
    }
  }
}

// Maximum restricted likelihood; 0 unless noise is far more likely than none.
void Interpolation::choose_lambdas() {
  const long size = contrasts_of(count_, false);  // the end at rest may be a corner
  std::fill(lambda_.begin(), lambda_.end(), 0.0);
  if (count_ < kFewestRows || scale_ == 0) return;
  std::vector<double> y(z_.size()), sums(dof_), least(dof_, HUGE_VAL);
  for (long trial = -1; trial < kLambdas; ++trial) {
    const double lambda = trial < 0 ? 0.0 : scale_ * kFirst * std::pow(kRatio, trial);
    const double determinant = factored_.factor(noise_, motion_, lambda, size);
    y = z_;
    factored_.forward(dof_, size, y.data());
    std::fill(sums.begin(), sums.end(), 0.0);
    for (long j = 0; j < size; ++j) {
      const double *const own = &y[(j + kBand) * dof_], per_pivot = factored_.pivot(j);
      for (long d = 0; d < dof_; ++d) sums[d] += own[d] * own[d] * per_pivot;
    }
    bool hopeful = false;
    for (long d = 0; d < dof_; ++d) {
      const double number = static_cast<double>(size), variance = sums[d] / number;
      if (!(variance > 0)) continue;
      double cost = determinant + number * std::log(variance);
      if (trial < 0) cost -= kSurely;
      if (cost < least[d]) least[d] = cost, lambda_[d] = lambda, variance_[d] = lambda * variance;
      hopeful = hopeful || cost < least[d] + kHopeless;
    }
    if (!hopeful) break;
  }
}

// Whether what is taken for noise is everywhere, or is a few steps of position.
bool Interpolation::is_noise(long joint, double lambda) {
  const long size = contrasts_of(count_, false);
  whiten(joint, lambda, size);
  double* const squares = u_.data() + kBand;
  double sum = 0;
  for (long j = 0; j < size; ++j) sum += squares[j] *= squares[j] * factored_.pivot(j);
  std::nth_element(squares, squares + size / 2, squares + size);
  if (squares[size / 2] > kSpread * kSpread * sum / static_cast<double>(size)) return true;
  double products = 0, all = 0;
  for (long j = kBand; j < kBand + size; ++j) {
    products += z_[j * dof_ + joint] * z_[(j - 1) * dof_ + joint];
    all += z_[j * dof_ + joint] * z_[j * dof_ + joint];
  }
  return products < kAlternates * all;
}

void Interpolation::whiten(long joint, double lambda, long size) {
  factored_.factor(noise_, motion_, lambda, size);
  for (long j = 0; j < size; ++j) u_[j + kBand] = z_[(j + kBand) * dof_ + joint];
  factored_.forward(1, size, u_.data());
}

void Interpolation::fit(long joint) {
  const long size = motion_.size();
  double lambda = lambda_[joint];
  if (lambda > 0 && !is_noise(joint, lambda)) lambda = 0;
  out_.noise[joint] = lambda > 0 ? std::sqrt(variance_[joint]) : 0;
  for (;; lambda = lambda > scale_ * kFirst ? lambda * kSlower : 0) {
    whiten(joint, lambda, size);
    factored_.backward(size, u_.data());
    if (!moves_too_far(joint, lambda)) break;
  }
  std::fill(w_.begin(), w_.end(), 0.0);
  for (long j = 0; j < size; ++j) {
    for (long p = 0; p < contrasts_[j].pieces; ++p) w_[contrasts_[j].first + p] += contrasts_[j].jerks[p] * u_[j + kBand];
  }
  for (size_t p = 0; p + 1 < bounds_.size(); ++p) w_[p] /= bounds_[p + 1] - bounds_[p];
  write(joint);
}

// Sets how far rows move; further than their noise and what they may is too far.
bool Interpolation::moves_too_far(long joint, double lambda) {
  std::fill(moved_.begin(), moved_.end(), 0.0);
  for (long j = 0; j < motion_.size(); ++j) {
    for (long i = 0; i < kOf && j + i < count_; ++i) moved_[j + i] -= noisy(contrasts_[j])[i] * u_[j + kBand];
  }
  bool far = false;
  for (long k = 0; k < count_; ++k) {
    moved_[k] *= lambda * noise_of_[k];
    const double step = given_.increments && k + 1 < count_ ? given_.times[k + 1] - given_.times[k] : 1;
    const double sigma = out_.noise[joint] * std::sqrt(noise_of_[k]), most = given_.most_moved[joint] * step;
    far = far || std::abs(moved_[k]) > std::max(kMostSigmas * sigma, most);
  }
  if (given_.increments) {
    double sum = 0;
    for (double& by : moved_) sum += std::exchange(by, sum);
  }
  return far;
}

void Interpolation::write_piece(long piece, long joint, double position, double velocity, double acceleration) const {
  const double numbers[] = {position, velocity / unit_, acceleration / (2 * unit_ * unit_),
                            w_[piece] / (6 * unit_ * unit_ * unit_)};
  for (long power = 0; power < 4; ++power) out_.coefficients[(piece * 4 + power) * dof_ + joint] = numbers[power];
}

// From positions and jerks: each acceleration from those beside it, so that no rounding adds up.
void Interpolation::write(long joint) const {
  const auto row = [&](long k) { return given_.rows[k * dof_ + joint] + moved_[k]; };
  const auto slope = [&](long k) { return (row(k + 1) - row(k)) / (times_[k + 1] - times_[k]); };
  long known = count_ - 1;  // the first row whose acceleration is
  double v = 0, a = 0;
  if (given_.rests) {
    known = std::max(count_ - 3, 0L);
    double p = row(count_ - 1);
    long k = count_ - 1;
    for (long piece = static_cast<long>(bounds_.size()) - 2; piece >= piece_of_[known]; --piece) {
      const double h = bounds_[piece + 1] - bounds_[piece], jerk = w_[piece];
      a -= h * jerk;
      v -= h * (a + h * jerk / 2);
      p -= h * (v + h * (a / 2 + h * jerk / 6));
      if (piece == piece_of_[k - 1]) p = row(--k);
      write_piece(piece, joint, p, v, a);
    }
  }
  for (long k = known - 1; k >= 0; --k) {
    const double h = times_[k + 1] - times_[k], jerk = w_[k];
    if (k > 0) {
      const double before = times_[k] - times_[k - 1];
      a = 2 * (slope(k) - slope(k - 1) + (w_[k - 1] * before * before - jerk * h * h) / 6) / (before + h);
    } else {
      a = count_ > 2 ? a - h * jerk : 0;
    }
    write_piece(k, joint, row(k), slope(k) - h * (a / 2 + h * jerk / 6), a);
  }
}

}  // namespace

long pieces_through(long count, bool rests) { return count - 1 + (rests ? std::min(count - 1, 2L) : 0); }

void interpolate(const RowsProblem& problem, const RowsResult& result) { Interpolation(problem, result).run(); }

}  // namespace traj_integrator::execution
