#include <algorithm>
#include <cmath>
#include <vector>

#include "../../kernels/retime/src/certificate.h"
#include "motions.h"

namespace traj_integrator::execution {
namespace {

constexpr double kFactors[kOrders][kLargestSize] = {  // of coefficients in derivatives
    {1, 1, 1, 1, 1, 1}, {0, 1, 2, 3, 4, 5}, {0, 0, 2, 6, 12, 20}, {0, 0, 0, 6, 24, 60}};

// Whether a joint might exceed what is known, during a piece: from the sizes of all of its coefficients.
void find_beyond(const Pieces& motion, long piece, const double* known, double* reach, char* beyond) {
  const long dof = motion.dof, plane = kOrders * dof;
  const double span = motion.knots.step(piece), *c = motion.at(piece);
  std::fill_n(beyond, dof, 0);
  for (long order = 0; order < std::min(kOrders, motion.size); ++order) {
    std::fill_n(reach, dof, 0.0);
    double power = span;
    for (long k = order + 1; k < motion.size; ++k, power *= span) {
      const double weight = kFactors[order][k] * power, *of = c + k * dof;
      for (long joint = 0; joint < dof; ++joint) reach[joint] += weight * std::abs(of[joint]);
    }
    const double *least = known + order * dof, *most = least + plane, *of = c + order * dof;
    for (long joint = 0; joint < dof; ++joint) {
      const double value = kFactors[order][order] * of[joint];
      // A number that is none is beyond all.
      beyond[joint] |= static_cast<char>(!(value + reach[joint] <= most[joint] && value - reach[joint] >= least[joint]));
    }
  }
}

// Whether no piece might exceed what is known, from the largest coefficients of all of them.
bool is_surely_within(const Pieces& motion, const double* known, double* reach, char* beyond) {
  const long dof = motion.dof, numbers = motion.size * dof;
  std::vector<double> most(motion.at(0), motion.at(0) + numbers), least(most);
  double longest = 0;
  for (long piece = 0; piece < motion.knots.count; ++piece) {
    longest = std::max(longest, motion.knots.step(piece));
    const double* c = motion.at(piece);
    for (long at = 0; at < numbers; ++at) {
      most[at] = std::max(most[at], c[at]);
      least[at] = std::min(least[at], c[at]);
    }
  }
  for (long at = dof; at < numbers; ++at) {  // all but positions count by their size
    most[at] = std::max(most[at], -least[at]);
    least[at] = -most[at];
  }
  const double times[2] = {0, longest};
  for (const double* c : {most.data(), least.data()}) {
    find_beyond({c, {times, 1}, motion.size, dof}, 0, known, reach, beyond);
    if (std::any_of(beyond, beyond + dof, [](char is) { return is != 0; })) return false;
  }
  return true;
}

}  // namespace

bool widen(const Pieces& motion, double* ranges) {
  const long dof = motion.dof, plane = kOrders * dof;
  double *least = ranges, *most = ranges + plane;
  const long known = std::min(kOrders, motion.size) * dof;  // the other derivatives are 0
  std::vector<double> begin(plane, 0.0), reach(dof);
  std::vector<char> beyond(dof);
  if (is_surely_within(motion, ranges, reach.data(), beyond.data())) return false;
  const std::vector<double> before(ranges, ranges + 2 * plane);
  // First where pieces begin: most of them are surely within what is known then.
  for (long piece = 0; piece < motion.knots.count; ++piece) {
    for (long at = 0; at < known; ++at) begin[at] = motion.at(piece)[at];
    for (long at = 2 * dof; at < known; ++at) begin[at] *= at < 3 * dof ? 2 : 6;
    for (long at = 0; at < plane; ++at) {
      least[at] = std::min(least[at], begin[at]);
      most[at] = std::max(most[at], begin[at]);
    }
  }
  for (long piece = 0; piece < motion.knots.count; ++piece) {
    find_beyond(motion, piece, ranges, reach.data(), beyond.data());
    for (long joint = 0; joint < dof; ++joint) {
      if (!beyond[joint]) continue;
      double c[kLargestSize] = {}, low[kOrders], high[kOrders];
      for (long k = 0; k < motion.size; ++k) c[k] = motion.at(piece)[k * dof + joint];
      for (long order = 0; order < kOrders; ++order) {
        low[order] = least[order * dof + joint];
        high[order] = most[order * dof + joint];
      }
      retiming::widen_by_piece(c, motion.knots.step(piece), low, high);
      for (long order = 0; order < kOrders; ++order) {
        least[order * dof + joint] = low[order];
        most[order * dof + joint] = high[order];
      }
    }
  }
  return !std::equal(before.begin(), before.end(), ranges);
}

}  // namespace traj_integrator::execution
