// Paths that turn back within a short way, where the derivatives of a spline over the distances of its rows turn at once. Their
// phase is taken anew: between two turns the way grows as a motion with steady acceleration at both of them would let it.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "path.h"
#include "polynomials.h"

namespace traj_integrator::retiming {
namespace {

// The square of the derivative of the spline, about 1 elsewhere, below which a path turns back rather than around a corner.
constexpr double kTurning = 1e-3;
// Corners have such a square below kCorner, and a square of the second derivative, by the part of a piece, above kBent.
// The spline's phase slows down at corners and is smoother than their distances: paths with corners keep it.
constexpr double kCorner = 0.8, kBent = 0.1;
constexpr int64_t kSamples = 8;  // samples of each piece of the spline, among which turns are searched
// Ways to and fro, relative to the whole way, that count as rounding; knots this close are merged.
constexpr double kRounding = 1e-9;
// Distance from a turn, relative to the whole way, without other knots; and differences between equal paths.
constexpr double kNear = 1e-8, kSamePath = 1e-8;
// Parts of the way between two turns, and of the part next to a turn.
constexpr double kParts = 16;
constexpr int64_t kAtTurn = 8;
// Jumps of the third derivative, relative to its values, that count as none.
constexpr double kJump = 1e-2;
// Least square of the derivative, relative to 1 and to itself.
constexpr double kFlat = 1e-12;
// Gauss quadrature with five points.
constexpr double kGauss[] = {0.046910077030668, 0.230765344947158, 0.5, 0.769234655052842, 0.953089922969332};
constexpr double kWeight[] = {0.118463442528095, 0.239314335249683, 0.284444444444444, 0.239314335249683, 0.118463442528095};

// The way from turn to turn, 0 to 1 for z from 0 to 1, 0.5 at 0.5: its second derivative is 5 and -5 at the ends, where the third
// is 0. A way from or to an end of the path is half of one that is twice as long.
double way(double z) { return z * z * (2.5 - z * z * (2.5 - z)); }
double slope(double z) { return 5 * z * (1 - z * z * (2 - z)); }
double bend(double z) { return 5 - z * z * (30 - 20 * z); }
double where(double part) {  // at most 0.5
  double z = std::sqrt(part / 2.5);
  for (int step = 0; step < 8 && z > 0; ++step) z = std::min(0.5, z - (way(z) - part) / slope(z));
  return z;
}

struct Place {
  double s;
  int64_t piece, row;  // piece of the spline; no row: -1
  bool turns, stands = false;     // a stop: the way to and fro was too short to count
  double before = 0, behind = 0;  // way from the last turn, and to the next one
};

// Phases and states there, [count, D] by order of derivative.
struct States {
  std::vector<double> phases, of[3];
};

// The spline at a phase: its derivatives, and those of the square of the first.
struct Spline {
  const Path& path;
  std::vector<double> q, q1, q2, q3;
  double square, rises, curves;

  explicit Spline(const Path& of) : path(of), q(of.dof()), q1(q), q2(q), q3(q) {}
  void at(int64_t piece, double s) {
    path.evaluate(piece, s, q.data(), q1.data(), q2.data(), q3.data());
    square = rises = curves = 0;
    for (size_t j = 0; j < q.size(); ++j) {
      square += q1[j] * q1[j];
      rises += 2 * q1[j] * q2[j];
      curves += 2 * (q2[j] * q2[j] + q1[j] * q3[j]);
    }
  }
};

// Where the spline turns back.
std::vector<Place> turns_of(const Path& path) {
  struct Sample {
    double s, square, rises;
    int64_t piece;
    std::vector<double> q1;
  };
  std::vector<Sample> samples;
  Spline spline(path);
  const std::vector<double>& knots = path.knots();
  for (int64_t i = 0; i <= kSamples * path.pieces(); ++i) {
    const int64_t m = std::min(i / kSamples, path.pieces() - 1);
    const double s = knots[m] + (knots[m + 1] - knots[m]) * static_cast<double>(i - m * kSamples) / kSamples;
    spline.at(m, s);
    samples.push_back({s, spline.square, spline.rises, m, spline.q1});
  }
  const auto turns_between = [&](const Sample& a, const Sample& b) {
    double sum = 0;
    for (size_t j = 0; j < a.q1.size(); ++j) sum += a.q1[j] * b.q1[j];
    return sum < 0;
  };
  std::vector<Place> turns;
  for (size_t i = 1; i + 1 < samples.size(); ++i) {
    const Sample &a = samples[i - 1], &b = samples[i];
    if (!(a.rises < 0 && b.rises >= 0)) continue;
    // A convex square is at least as large as its tangents, whose lowest value is where they meet.
    const double meets = (b.square - a.square + a.rises * a.s - b.rises * b.s) / (a.rises - b.rises);
    if (a.square + a.rises * (meets - a.s) > kCorner) continue;
    double from = a.s, to = b.s;
    for (double s = 0.5 * (from + to); s > from && s < to; s = 0.5 * (from + to)) {
      spline.at(a.piece, s);
      (spline.rises < 0 ? from : to) = s;
    }
    spline.at(a.piece, to);
    if (spline.square >= kCorner) continue;
    double bends = 0;
    for (const double second : spline.q2) bends += second * second;
    const double piece = path.knots()[a.piece + 1] - path.knots()[a.piece];
    const bool is_turn = spline.square < kTurning && spline.curves * piece * piece > kTurning &&
                         (turns_between(a, b) || (i > 1 && turns_between(samples[i - 2], samples[i + 1])));
    if (!is_turn && bends * piece * piece > kBent) return {};
    if (!is_turn) continue;
    const double near = kRounding * (b.s - a.s);
    if (i % kSamples == 0 && to > b.s - near) turns.push_back({b.s, b.piece, b.piece, true});
    else if (i % kSamples == 1 && to < a.s + near) turns.push_back({a.s, a.piece, a.piece, true});
    else turns.push_back({to, a.piece, -1, true});
  }
  return turns;
}

// Rows, turns and places in between, so that the path is a polynomial of its new phase from one to the next.
std::vector<Place> places_around(const Path& path, const std::vector<Place>& turns) {
  std::vector<Place> places;
  auto turn = turns.begin();
  const auto add = [&](const Place& place) {
    if (!places.empty()) {
      const Place before = places.back();
      const double last = turn == turns.begin() ? path.begin() : (turn - 1)->s, next = turn == turns.end() ? path.end() : turn->s;
      const double parts_for_way = std::ceil((place.s - before.s) / (next - last) * kParts);
      const int64_t parts = std::max(before.turns || place.turns ? kAtTurn : 1, static_cast<int64_t>(parts_for_way));
      for (int64_t i = 1; i < parts; ++i) {
        const double e = static_cast<double>(i) / static_cast<double>(parts);
        places.push_back({before.s + e * (place.s - before.s), before.piece, -1, false});
      }
    }
    places.push_back(place);
    if (place.turns) ++turn;
  };
  for (int64_t m = 0; m <= path.pieces(); ++m) {
    add({path.knots()[m], std::min(m, path.pieces() - 1), m, turn != turns.end() && turn->row == m});
    while (turn != turns.end() && turn->row < 0 && turn->piece == m) add(*turn);
  }
  return places;
}

// How fast the way grows with the phase of the spline. At a turn of a path that is not quite straight, the rest of its
// square counts less and less until the next turn.
struct Pace {
  const std::vector<Place>& places;
  const std::vector<size_t>& ends;
  Spline& spline;  // evaluated at the place
  std::vector<double> left;

  Pace(Spline& of, const std::vector<Place>& all, const std::vector<size_t>& between)
      : places(all), ends(between), spline(of), left(between.size(), 0.0) {
    for (size_t k = 1; k + 1 < ends.size(); ++k) {
      spline.at(places[ends[k]].piece, places[ends[k]].s);
      left[k] = spline.square;
    }
  }
  double operator()(size_t k, double s, double* rises) const {
    const double from = places[ends[k]].s, length = places[ends[k + 1]].s - from, t = (s - from) / length;
    const double square = spline.square - left[k] - (left[k + 1] - left[k]) * t * t * (3 - 2 * t);
    const double pace = std::sqrt(std::max(square, kFlat * spline.square + 1e-300));
    *rises = (spline.rises - (left[k + 1] - left[k]) * 6 * t * (1 - t) / length) / (2 * pace);
    return pace;
  }
};

// Sets the ways from and to the turns; returns the whole way.
double measure(Spline& spline, std::vector<Place>& places, const std::vector<size_t>& ends) {
  const Pace pace(spline, places, ends);
  double whole = 0;
  for (size_t k = 0; k + 1 < ends.size(); ++k) {
    const auto way_to_next = [&](size_t i) {
      double sum = 0, rises;
      for (int g = 0; g < 5; ++g) {
        const double span = places[i + 1].s - places[i].s, s = places[i].s + kGauss[g] * span;
        spline.at(places[i].piece, s);
        sum += kWeight[g] * pace(k, s, &rises) * span;
      }
      return sum;
    };
    std::vector<double> ways;
    for (size_t i = ends[k]; i < ends[k + 1]; ++i) ways.push_back(way_to_next(i));
    double sum = 0;
    for (size_t i = ends[k] + 1; i <= ends[k + 1]; ++i) places[i].before = sum += ways[i - 1 - ends[k]];
    whole += sum;
    sum = 0;
    for (size_t i = ends[k + 1]; i-- > ends[k];) places[i].behind = sum += ways[i - ends[k]];
  }
  return whole;
}

// The spline's phase at a turn, by a phase that grows like a motion with steady acceleration.
std::pair<double, double> rate_at_turn(Spline& spline, const Place& place) {
  double curves = spline.curves, turns = 0;
  const auto add = [&] {
    for (size_t j = 0; j < spline.q.size(); ++j) turns += spline.q2[j] * spline.q3[j];
  };
  add();
  if (place.row > 0) {  // the third derivative jumps
    spline.at(place.piece - 1, place.s);
    curves = (curves + spline.curves) / 2;
    add();
    turns /= 2;
    spline.at(place.piece, place.s);
  }
  const double steep = std::max(curves / 2, 1e-300);
  return {std::pow(steep, -0.25), -turns / (3 * steep * steep)};
}

// The places at which ways begin and end. A turn within a way that is rounding does not count; returns the whole way.
double settle(Spline& spline, std::vector<Place>& places, std::vector<size_t>& ends) {
  for (;;) {
    ends.assign(1, 0);
    for (size_t i = 1; i + 1 < places.size(); ++i) {
      if (places[i].turns) ends.push_back(i);
    }
    ends.push_back(places.size() - 1);
    const double whole = measure(spline, places, ends);
    bool settled = true;
    for (size_t k = 0; k + 1 < ends.size(); ++k) {
      if (places[ends[k]].behind > kRounding * whole) continue;
      for (const size_t i : {ends[k], ends[k + 1]}) {
        if (!places[i].turns) continue;
        places[i].turns = false;
        places[i].stands = true;
        settled = false;
      }
    }
    if (settled) return whole;
  }
}

States states_at(Spline& spline, const std::vector<Place>& places, const std::vector<size_t>& ends) {
  States states;
  const Pace pace(spline, places, ends);
  double begin = 0;  // of a way
  for (size_t k = 0; k + 1 < ends.size(); ++k) {
    const bool first = k == 0, last = k + 2 == ends.size();
    const double size = places[ends[k]].behind * (first || last ? 2 : 1), length = std::sqrt(5 * size);
    const double end = begin + length * (first || last ? 0.5 : 1);
    for (size_t i = ends[k]; i < ends[k + 1] + last; ++i) {
      const Place& place = places[i];
      const double before = i == ends[k] ? 0 : place.before, behind = i == ends[k + 1] ? 0 : place.behind;
      const bool from_begin = !first && (last || before < behind);  // the nearer turn, which keeps digits
      const double z = where((from_begin ? before : behind) / size);
      double rate, change;  // first and second derivative of the spline's phase by the new one
      spline.at(place.piece, place.s);
      if (place.turns) {
        std::tie(rate, change) = rate_at_turn(spline, place);
      } else {
        double rises;
        const double of = pace(k, place.s, &rises);
        rate = size * slope(z) / length / of;
        change = ((from_begin ? 0.2 : -0.2) * bend(z) - rises * rate * rate) / of;
      }
      states.phases.push_back(from_begin ? begin + z * length : end - z * length);
      for (size_t j = 0; j < spline.q.size(); ++j) {
        states.of[0].push_back(spline.q[j]);
        states.of[1].push_back(spline.q1[j] * rate);
        states.of[2].push_back(spline.q2[j] * rate * rate + spline.q1[j] * change);
      }
    }
    begin = end;
  }
  return states;
}

}  // namespace

void Path::unfold() {
  const std::vector<Place> turns = turns_of(*this);
  if (turns.empty()) return;
  Spline spline(*this);
  std::vector<Place> places = places_around(*this, turns);
  std::vector<size_t> ends;
  const double whole = settle(spline, places, ends);
  if (ends.size() == 2) return;
  const States states = states_at(spline, places, ends);
  const auto is_finite = [](const std::vector<double>& of) {
    return std::all_of(of.begin(), of.end(), [](double x) { return std::isfinite(x); });
  };
  if (!std::all_of(states.of, states.of + 3, is_finite)) return;
  const size_t count = places.size();
  const auto state = [&](int order, size_t i) { return &states.of[order][i * dof_]; };
  const auto is_end = [&](size_t i) { return i == 0 || i + 1 == count || places[i].turns; };
  const auto may_be_knot = [&](size_t i) {
    return is_end(i) || (!places[i].stands && std::min(places[i].before, places[i].behind) > kNear * whole);
  };
  // Knots are rows and turns, and places between them if one polynomial would be a different path.
  std::vector<size_t> kept;
  const auto add_between = [&](size_t from, size_t to) {
    const double span = states.phases[to] - states.phases[from];
    std::vector<double> c((kDegree + 1) * dof_);
    piece_between(span, dof_, state(0, from), state(0, to), state(1, from), state(1, to), state(2, from), state(2, to), c.data());
    bool differs = false;
    for (size_t i = from + 1; i < to; ++i) {
      for (int64_t j = 0; j < dof_; ++j) {
        double sum = 0;
        for (int k = kDegree; k >= 0; --k) sum = sum * (states.phases[i] - states.phases[from]) + c[k * dof_ + j];
        differs |= std::abs(sum - state(0, i)[j]) > kSamePath * whole;
      }
    }
    for (size_t i = from + 1; i < to && differs; ++i) {
      if (may_be_knot(i)) kept.push_back(i);
    }
  };
  for (size_t i = 0; i < count; ++i) {
    if (!is_end(i) && !(places[i].row >= 0 && may_be_knot(i))) continue;
    if (i > 0) add_between(kept.back(), i);
    kept.push_back(i);
  }
  std::vector<int64_t> knot_of(kept_.size());
  for (size_t i = 0, k = 0; i < count; ++i) {
    while (k + 1 < kept.size() && kept[k + 1] <= i) ++k;
    if (places[i].row < 0) continue;
    const auto apart = [&](size_t knot) { return std::abs(states.phases[kept[knot]] - states.phases[i]); };
    knot_of[places[i].row] = static_cast<int64_t>(kept[k] != i && apart(k + 1) < apart(k) ? k + 1 : k);
  }
  for (int64_t& knot : knot_of_row_) knot = knot_of[knot];
  for (size_t i = 0; i < count; ++i) {
    if (!(dof_ == 1 ? is_end(i) : may_be_knot(i))) continue;  // a single joint's places in between cost nothing
    const double from = knots_[places[i].piece], part = (places[i].s - from) / (knots_[places[i].piece + 1] - from);
    passed_.insert(passed_.end(), {states.phases[i], static_cast<double>(places[i].piece), part});
  }
  std::vector<double> chosen[3];
  knots_.clear();
  for (const size_t i : kept) {
    knots_.push_back(states.phases[i]);
    if (places[i].turns) turns_.push_back(states.phases[i]);
    for (int order = 0; order < 3; ++order) chosen[order].insert(chosen[order].end(), state(order, i), state(order, i) + dof_);
  }
  join(chosen[0].data(), chosen[1].data(), chosen[2].data());
  std::vector<double> third[4];  // at the begin and the end of both pieces around a knot
  for (auto& each : third) each.resize(dof_);
  for (int64_t m = 1; m < pieces(); ++m) {
    for (int i = 0; i < 4; ++i) evaluate(m - 1 + i / 2, knots_[m - 1 + (i + 1) / 2], nullptr, nullptr, nullptr, third[i].data());
    double jump = 0, most = 0;
    for (int64_t j = 0; j < dof_; ++j) {
      jump = std::max(jump, std::abs(third[2][j] - third[1][j]));
      for (const auto& each : third) most = std::max(most, std::abs(each[j]));
    }
    smooth_[m] = places[kept[m]].row < 0 || jump <= kJump * most;
  }
}

}  // namespace traj_integrator::retiming
