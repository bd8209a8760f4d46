#include "place.h"

#include <algorithm>
#include <cmath>

namespace traj_integrator::execution {

void place(const std::vector<JointSource>& joints, const Knots& knots, double* out) {
  const long dof = static_cast<long>(joints.size());
  for (long joint = 0; joint < dof; ++joint) {
    const auto& [motion, column] = joints[joint];
    const long last = motion.knots.count - 1;
    const double end = motion.knots.times[last + 1];
    long piece = 0;
    for (long interval = 0; interval < knots.count; ++interval) {
      const double begin = knots.times[interval], middle = (begin + knots.times[interval + 1]) / 2;
      while (piece < last && motion.knots.times[piece + 1] <= middle) ++piece;
      const bool over = middle >= end;
      const double t = (over ? end : begin) - motion.knots.times[piece];
      double c[kPlacedSize] = {};
      for (long power = 0; power < motion.size; ++power) c[power] = motion.at(piece)[power * motion.dof + column];
      // Coefficients about another time: Horner's rule, once for each of them.
      for (long from = 0; from + 1 < motion.size; ++from) {
        for (long power = motion.size - 2; power >= from; --power) c[power] += t * c[power + 1];
      }
      double* to = out + interval * kPlacedSize * dof + joint;
      for (long power = 0; power < kPlacedSize; ++power) to[power * dof] = over && power > 0 ? 0.0 : c[power];
    }
  }
}

long united_knots(double* times, long count, double gap, double beside) {
  const auto whole = [](double time) { return std::nearbyint(time * 1e9) * 1e-9; };
  std::sort(times, times + count);
  for (long i = 0; i < count; ++i) times[i] = whole(times[i]);
  const double last = std::max(times[count - 1], gap);
  std::vector<long> became_one;  // each once, increasing
  bool last_did = false;
  long kept = 1;
  for (long i = 1; i < count; ++i) {
    const double after = times[i] - times[kept - 1], before = last - times[i];
    if (after >= gap && before >= gap) {
      times[kept++] = times[i];
      continue;
    }
    if (after > 0 && after < gap && before > 0 && (became_one.empty() || became_one.back() != kept - 1)) {
      became_one.push_back(kept - 1);
    }
    last_did |= before > 0 && before < gap;
  }
  times[kept++] = last;
  if (last_did) became_one.push_back(kept - 1);
  long more = kept;
  for (long at : became_one) {
    if (at > 0 && times[at] - times[at - 1] > 3 * beside) times[more++] = whole(times[at] - beside);
    if (at + 1 < kept && times[at + 1] - times[at] > 3 * beside) times[more++] = whole(times[at] + beside);
  }
  std::sort(times, times + more);
  return more;
}

}  // namespace traj_integrator::execution
