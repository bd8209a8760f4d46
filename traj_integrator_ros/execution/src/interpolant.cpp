// With a jerk that is constant in each piece, z = C w for contrasts z of observations (third divided differences: they
// do not see quadratics) and jerks w. Where rows have noise, too, z is Gaussian with the covariance s^2 (lambda E + G):
// G = C H^-1 C' of jerks whose variance is s^2 by the length of a piece, E of noise. Both are banded, and so it takes
// O(count) to find the likelihood of a lambda (Patterson and Thompson 1971), and the motion: w = H^-1 C' u and
// rows - lambda W^-1 D' u with u = (lambda E + G)^-1 z and contrasts D of rows.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "motions.h"

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
constexpr double kFirst = 1e-2;                // the least lambda, relative to mean diagonals; less moves no row
constexpr double kRatio = 3.1622776601683795;  // of one lambda to the one before: noise within 1.8 times
constexpr long kLambdas = 29;                  // up to 1e12: windows of 100 rows
constexpr double kMostSigmas = 4.5;            // distance of a row, in its noise: beyond it is 1 of 150,000
constexpr double kSlower = 0.1;                // lambda of the next try if a row is further

// Position, velocity or acceleration at a time.
struct Observation {
  double time;
  long order;

  // Of the motion t^power / power!.
  double monomial(long power, double origin) const {
    double value = order > power ? 0 : 1;
    for (long k = 1; k <= power - order; ++k) value *= (time - origin) / static_cast<double>(k);
    return value;
  }
  // After a jerk of 1 from a time on.
  double response(double begin) const { return time > begin ? monomial(3, begin) : 0; }
};

struct Contrast {
  double weights[kOf];     // of observations
  double of_steps[kOf];    // of differences of rows, the same
  double jerks[kMostPieces];
  long first, pieces;

  Contrast(const Observation* of, const double* bounds, long first_piece, long piece_count)
      : jerks{}, first(first_piece), pieces(piece_count) {
    double basis[3][kOf], largest = 0, sum = 0;
    for (long power = 0; power < 3; ++power) {
      for (long i = 0; i < kOf; ++i) basis[power][i] = of[i].monomial(power, of[0].time);
    }
    for (long i = 0; i < kOf; ++i) {  // minors: orthogonal to all three
      const long a = i > 0 ? 0 : 1, b = i > 1 ? 1 : 2, c = i > 2 ? 2 : 3;
      const double minor = basis[0][a] * (basis[1][b] * basis[2][c] - basis[1][c] * basis[2][b]) -
                           basis[0][b] * (basis[1][a] * basis[2][c] - basis[1][c] * basis[2][a]) +
                           basis[0][c] * (basis[1][a] * basis[2][b] - basis[1][b] * basis[2][a]);
      weights[i] = i % 2 == 0 ? -minor : minor;
      largest = std::max(largest, std::abs(minor));
    }
    for (long i = 0; i < kOf; ++i) {
      weights[i] /= largest;
      if (of[i].order == 0) sum += weights[i];
      of_steps[i] = -sum;
      for (long p = 0; p < pieces; ++p) {
        jerks[p] += weights[i] * (of[i].response(bounds[first + p]) - of[i].response(bounds[first + p + 1]));
      }
    }
  }
};

// A symmetric banded matrix, [size][kBand]: [j][i] = (j, j - i), 0 where j < i.
using Banded = std::vector<std::array<double, kBand>>;

double mean_diagonal(const Banded& matrix) {
  double sum = 0;
  for (const auto& row : matrix) sum += row[0];
  return sum / static_cast<double>(matrix.size());
}

// L D L' of the first rows of lambda E + G. Before the first row there are some of zeros, as in all columns here.
struct Factored {
  Banded lower;
  std::vector<double> per_pivot;

  explicit Factored(long size) : lower(size + kBand), per_pivot(size + kBand) {}

  // Returns the logarithm of the determinant.
  double factor(const Banded& noise, const Banded& motion, double lambda, long size) {
    double product = 1, logarithm = 0;
    for (long j = 0; j < size; ++j) {
      const auto &e = noise[j], &g = motion[j], &one = lower[j + kBand - 1], &two = lower[j + kBand - 2];
      const double* const pivots = &per_pivot[j + kBand];
      auto& l = lower[j + kBand];
      const double far = lambda * e[3] + g[3], middle = lambda * e[2] + g[2] - far * two[1];
      const double near = lambda * e[1] + g[1] - far * one[2] - middle * one[1];
      l[3] = far * pivots[-3], l[2] = middle * pivots[-2], l[1] = near * pivots[-1];
      const double own = lambda * e[0] + g[0] - far * l[3] - middle * l[2] - near * l[1];
      per_pivot[j + kBand] = 1 / own;
      product *= own;
      if (!(product > 1e-100 && product < 1e100)) logarithm += std::log(std::exchange(product, 1));
    }
    return logarithm + std::log(product);
  }

  // Solves L y = z in place: y [kBand + size, columns].
  void forward(long columns, long size, double* y) const {
    for (long j = 0; j < size; ++j) {
      const auto& l = lower[j + kBand];
      double* const own = y + (j + kBand) * columns;
      const double *const one = own - columns, *const two = one - columns, *const three = two - columns;
      for (long d = 0; d < columns; ++d) own[d] -= l[1] * one[d] + l[2] * two[d] + l[3] * three[d];
    }
  }

  void backward(long size, double* y) const {
    for (long j = size + kBand - 1; j >= kBand; --j) {
      double sum = 0;
      for (long i = 1; i < kBand && j + i < size + kBand; ++i) sum += lower[j + i][i] * y[j + i];
      y[j] = y[j] * per_pivot[j] - sum;
    }
  }
};

class Interpolation {
 public:
  explicit Interpolation(const RowsProblem& given)
      : given_(given), count_(given.count), dof_(given.dof), open_(std::max(count_ - (kOf - 1), 0L)),
        size_(std::max(count_ + (given.rests ? 2 : 0) - (kOf - 1), 0L)), noise_of_(count_ + 2), noise_(size_), motion_(size_),
        z_((size_ + kBand) * dof_), u_(size_ + kBand), w_(given.knots.count), moved_(count_), factored_(size_) {
    set_contrasts();
    set_covariances();
    for (long j = 0; j < size_; ++j) {
      for (long i = 0; i + 1 < kOf && j + i + 1 < count_; ++i) {
        const double *const from = given_.rows + (j + i) * dof_, *const to = from + dof_;
        for (long d = 0; d < dof_; ++d) z_[(j + kBand) * dof_ + d] += contrasts_[j].of_steps[i] * (to[d] - from[d]);
      }
    }
  }

  void run(double* coefficients, double* noise) {
    choose_lambdas(noise);
    for (long joint = 0; joint < dof_; ++joint) {
      if (lambda_[joint] > 0 && !is_noise(joint)) lambda_[joint] = noise[joint] = 0;
      fit(joint, noise[joint]);
      write(joint, coefficients + joint);
    }
  }

 private:
  long piece_of(long row) const { return row + (given_.rests ? std::max(row - std::max(count_ - 3, 0L), 0L) : 0); }
  double step(long row) const { return given_.times[row + 1] - given_.times[row]; }
  const double* noisy(const Contrast& contrast) const { return given_.increments ? contrast.of_steps : contrast.weights; }

  // Acceleration and velocity of 0 at the end leave the motion the same freedom as an open end if its last two steps
  // have two pieces each.
  void set_contrasts() {
    std::vector<Observation> observations;
    for (long k = 0; k < count_; ++k) observations.push_back({given_.times[k], 0});
    for (long order = 1; order < 3; ++order) observations.push_back({given_.times[count_ - 1], order});
    for (long j = 0; j < size_; ++j) {
      const long first = piece_of(j), last = piece_of(std::min(j + kOf - 1, count_ - 1));
      contrasts_.emplace_back(&observations[j], given_.knots.times, first, last - first);
    }
  }

  void set_covariances() {
    for (long k = 0; k < count_ - (given_.increments || given_.rests ? 1 : 0); ++k) {
      noise_of_[k] = given_.increments ? step(k) * step(k) : 1;
    }
    for (long j = 0; j < size_; ++j) {
      const Contrast& own = contrasts_[j];
      for (long i = 0; i <= std::min(kBand - 1, j); ++i) {
        const Contrast& other = contrasts_[j - i];
        for (long k = 0; k + i < kOf; ++k) noise_[j][i] += noisy(own)[k] * noisy(other)[k + i] * noise_of_[j + k];
        for (long p = own.first; p < std::min(other.first + other.pieces, own.first + own.pieces); ++p) {
          motion_[j][i] += own.jerks[p - own.first] * other.jerks[p - other.first] / given_.knots.step(p);
        }
      }
    }
    const double of_noise = mean_diagonal(noise_);
    scale_ = of_noise > 0 ? mean_diagonal(motion_) / of_noise : 0;
  }

  // Maximum restricted likelihood, without the end, which may be a corner; 0 unless noise is far more likely than none.
  void choose_lambdas(double* noise) {
    lambda_.assign(dof_, 0.0);
    std::fill_n(noise, dof_, 0.0);
    if (count_ < kFewestRows || scale_ == 0) return;
    std::vector<double> y, sums(dof_), least(dof_, HUGE_VAL);
    for (long trial = -1; trial < kLambdas; ++trial) {
      const double lambda = trial < 0 ? 0.0 : scale_ * kFirst * std::pow(kRatio, trial);
      const double determinant = factored_.factor(noise_, motion_, lambda, open_);
      y = z_;
      factored_.forward(dof_, open_, y.data());
      std::fill(sums.begin(), sums.end(), 0.0);
      for (long j = kBand; j < open_ + kBand; ++j) {
        for (long d = 0; d < dof_; ++d) sums[d] += y[j * dof_ + d] * y[j * dof_ + d] * factored_.per_pivot[j];
      }
      bool hopeful = false;
      for (long d = 0; d < dof_; ++d) {
        const double number = static_cast<double>(open_), variance = sums[d] / number;
        if (!(variance > 0)) continue;
        const double cost = determinant + number * std::log(variance) - (trial < 0 ? kSurely : 0);
        if (cost < least[d]) least[d] = cost, lambda_[d] = lambda, noise[d] = std::sqrt(lambda * variance);
        hopeful = hopeful || cost < least[d] + kHopeless;
      }
      if (!hopeful) break;
    }
  }

  void whiten(long joint, long size) {
    factored_.factor(noise_, motion_, lambda_[joint], size);
    for (long j = kBand; j < size + kBand; ++j) u_[j] = z_[j * dof_ + joint];
    factored_.forward(1, size, u_.data());
  }

  // Whether what is taken for noise is everywhere, or is a few steps of position.
  bool is_noise(long joint) {
    whiten(joint, open_);
    double *const squares = u_.data() + kBand, sum = 0, products = 0, all = 0;
    for (long j = 0; j < open_; ++j) sum += squares[j] *= squares[j] * factored_.per_pivot[j + kBand];
    std::nth_element(squares, squares + open_ / 2, squares + open_);
    if (squares[open_ / 2] > kSpread * kSpread * sum / static_cast<double>(open_)) return true;
    for (const double *z = &z_[kBand * dof_ + joint], *const end = z + open_ * dof_; z != end; z += dof_) {
      products += *z * z[-dof_];
      all += *z * *z;
    }
    return products < kAlternates * all;
  }

  void fit(long joint, double noise) {
    double& lambda = lambda_[joint];
    for (;; lambda = lambda > scale_ * kFirst ? lambda * kSlower : 0) {
      whiten(joint, size_);
      factored_.backward(size_, u_.data());
      if (!moves_too_far(lambda, noise, given_.most_moved[joint])) break;
    }
    std::fill(w_.begin(), w_.end(), 0.0);
    for (long j = 0; j < size_; ++j) {
      for (long p = 0; p < contrasts_[j].pieces; ++p) w_[contrasts_[j].first + p] += contrasts_[j].jerks[p] * u_[j + kBand];
    }
    for (long p = 0; p < given_.knots.count; ++p) w_[p] /= given_.knots.step(p);
  }

  // Sets how far rows move; further than their noise and what they may is too far.
  bool moves_too_far(double lambda, double noise, double most) {
    std::fill(moved_.begin(), moved_.end(), 0.0);
    for (long j = 0; j < size_; ++j) {
      for (long i = 0; i < kOf && j + i < count_; ++i) moved_[j + i] -= noisy(contrasts_[j])[i] * u_[j + kBand];
    }
    bool far = false;
    double sum = 0;
    for (long k = 0; k < count_; ++k) {
      moved_[k] *= lambda * noise_of_[k];
      const double may = most * (given_.increments && k + 1 < count_ ? step(k) : 1);
      far = far || std::abs(moved_[k]) > std::max(kMostSigmas * noise * std::sqrt(noise_of_[k]), may);
      if (given_.increments) sum += std::exchange(moved_[k], sum);
    }
    return far;
  }

  // From positions and jerks: each acceleration from those beside it, so that no rounding adds up.
  void write(long joint, double* coefficients) const {
    const auto row = [&](long k) { return given_.rows[k * dof_ + joint] + moved_[k]; };
    State later{}, now{};  // what jerks add to rest in the step after a row, and in the one before it
    double a = 0;          // of an open end it is not used, but for a straight line
    for (long k = count_ - 2; k >= 0; --k, later = now) {
      if (k == count_ - 2) later = added(k);
      const double h = step(k), slope = (row(k + 1) - row(k) - later.position) / h;
      if (k > 0) {
        const double before = step(k - 1);
        now = added(k - 1);
        const double arriving = (row(k) - row(k - 1) - now.position) / before + now.velocity - now.acceleration * before / 2;
        a = 2 * (slope - arriving) / (h + before);
      } else {
        a -= later.acceleration;
      }
      State x{row(k), slope - h * a / 2, a};
      for (long p = piece_of(k); p < piece_of(k + 1); ++p) {
        const double numbers[] = {x.position, x.velocity, x.acceleration / 2, w_[p] / 6};
        for (long power = 0; power < 4; ++power) coefficients[(p * kSize + power) * dof_] = numbers[power];
        x = Interval(given_.knots.step(p)).after(x, w_[p]);
      }
    }
  }

  State added(long k) const {
    State x{};
    for (long p = piece_of(k); p < piece_of(k + 1); ++p) x = Interval(given_.knots.step(p)).after(x, w_[p]);
    return x;
  }

  const RowsProblem& given_;
  const long count_, dof_, open_, size_;  // contrasts without those of the end, and all
  std::vector<double> noise_of_;          // variances of observations, or of steps between rows
  std::vector<Contrast> contrasts_;
  Banded noise_, motion_;                 // E and G
  double scale_ = 0;                      // of lambda: mean diagonal of G by that of E
  std::vector<double> lambda_, z_;        // contrasts of rows
  std::vector<double> u_, w_, moved_;     // of one joint
  Factored factored_;
};

}  // namespace

void interpolate(const RowsProblem& problem, double* coefficients, double* noise) {
  Interpolation(problem).run(coefficients, noise);
}

}  // namespace traj_integrator::execution
