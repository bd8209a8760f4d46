#include <algorithm>

#include "call.h"
#include "instruction_set.h"
#include "parallel.h"

namespace traj_integrator {
namespace {

// Elements below which a second thread costs more than it saves.
constexpr int64_t kGrainElements = 8192;
// Number of doubles of one output that are processed at a time: four outputs, actions and gradients stay in the inner
// caches.
constexpr int64_t kTileElements = 1024;

// Elements from `at` on in double, or zeros where there is no array.
void load(double* to, const Array& from, int64_t at, int64_t count) {
  if (!from.given()) {
    std::fill_n(to, count, 0.0);
  } else if (from.type == 'd') {
    std::copy_n(from.as<double>() + at, count, to);
  } else {
    std::copy_n(from.as<float>() + at, count, to);
  }
}

// A few trajectories in double.
class Tile {
 public:
  Tile(const Call& call, const Checked& sizes, int64_t most, double* memory)
      : motion(problem_of<double>(call, sizes)), call_(call), sizes_(sizes) {
    motion.action = taken(memory, most * sizes.actions * sizes.dof);
    for (double*& rows : motion.end) rows = taken(memory, most * sizes.dof);
    for (double*& rows : motion.output) rows = taken(memory, most * sizes.rows * sizes.dof);
    scratch_ = memory;
  }

  void forward(int64_t begin, int64_t count) {
    const int64_t dof = sizes_.dof, size = sizes_.actions * dof;
    load(motion.action, call_.action, begin * size, count * size);
    for (int64_t b = 0; b < count; ++b) {
      for (int k = 0; k < kEnds; ++k) {
        load(motion.end[k] + b * dof, call_.ends[k], sizes_.picked[k / kStartRows](begin + b) * dof, dof);
      }
    }
    motion.picked[0] = motion.picked[1] = {count};
    motion.dt.data = sizes_.dt.data + begin * sizes_.dt.batch_stride;
    loops().of_double.forward(motion, 0, count, scratch_);
  }

  // The vjp from the outputs, which the caller has replaced by their gradients; its results have yet to be set.
  Problem<double> back() const {
    Problem<double> back = motion;
    back.action = nullptr;
    std::fill_n(back.end, kEnds, nullptr);
    return back;
  }
  void run(const Problem<double>& back, int64_t count) const { loops().of_double.vjp(back, 0, count, scratch_); }

  static double* taken(double*& memory, int64_t elements) { return std::exchange(memory, memory + elements); }

  Problem<double> motion;

 private:
  const Call& call_;
  const Checked& sizes_;
  double* scratch_;
};

// Calls work(tile, begin, count, memory) for all trajectories; memory has `more` doubles for each of a tile, and for one.
template <class Work>
void in_tiles(const Call& call, const Checked& sizes, int64_t more, int threads, const Work& work) {
  const int64_t size = std::max<int64_t>(1, sizes.rows * sizes.dof), most = std::max<int64_t>(1, kTileElements / size);
  parallel_for(0, sizes.batch, std::max<int64_t>(1, kGrainElements / size), threads, [&](int64_t first, int64_t last) {
    thread_local std::vector<double> memory;
    const int64_t elements = most * (sizes.actions * sizes.dof + kEnds * sizes.dof + kOutputs * size);
    const int64_t scratch = scratch_size(problem_of<double>(call, sizes));
    double* next = grown(memory, elements + scratch + most * more);
    double* const own = Tile::taken(next, most * more);
    Tile tile(call, sizes, most, next);
    for (int64_t begin = first; begin < last; begin += most) {
      const int64_t count = std::min(most, last - begin);
      tile.forward(begin, count);
      work(tile, begin, count, own);
    }
  });
}

// ---- costs ----

enum Field { kWeight, kTarget, kTerminalWeight, kLimitWeight, kLower, kUpper };
constexpr int kTermArrays = 5;  // of a CostTerm

using Fields = Array[CostCall::kFields];

bool is_per_trajectory(const Fields& fields) {
  return fields[kWeight].dims == 3 || fields[kTarget].dims == 3 || fields[kTerminalWeight].dims == 2;
}

// For arrays [D], [H, D] or [B, H, D]; a terminal weight of [D] or [B, D]; limits of [D].
void expect_fields(const Fields& fields, const Sizes& sizes) {
  for (int k = 0; k < CostCall::kFields; ++k) {
    const Array& field = fields[k];
    if (!field.given()) continue;
    bool fits = field.has_shape({sizes.dof});
    if (k == kTerminalWeight) fits = fits || field.has_shape({sizes.batch, sizes.dof});
    if (k == kWeight || k == kTarget) {
      fits = fits || field.has_shape({sizes.rows, sizes.dof}) || field.has_shape({sizes.batch, sizes.rows, sizes.dof});
    }
    expect(fits && field.is_real(), Wrong::kValue, "terms: expected real numbers that fit trajectories, got shape ", field);
  }
  expect(!fields[kLimitWeight].given() || (fields[kLower].given() && fields[kUpper].given()), Wrong::kValue,
         "terms: expected both limits with their weight");
}

// Fills in the terms that differ by trajectory, or the others, as the loops read them.
void fill(const CostCall& call, const Sizes& sizes, int64_t trajectory, bool per_trajectory, double* memory, CostTerm* terms) {
  const int64_t dof = sizes.dof, size = sizes.rows * dof;
  for (int k = 0; k < kOutputs; ++k, memory += kTermArrays * size) {
    const Fields& fields = call.terms[k];
    if (is_per_trajectory(fields) != per_trajectory) continue;
    double* next = memory;
    const auto take = [&](const Array& field) {
      double* const to = Tile::taken(next, size);
      if (field.dims > 1) {
        load(to, field, field.dims == 3 ? trajectory * size : 0, size);
      } else {
        for (int64_t at = 0; at < size; at += dof) load(to + at, field, 0, dof);
      }
      return to;
    };
    if (const Array& terminal = fields[kTerminalWeight]; fields[kWeight].given() || terminal.given()) {
      double *const weight = take(fields[kWeight]), *const last = weight + size - dof;
      load(next, terminal, terminal.dims == 2 ? trajectory * dof : 0, dof);
      std::transform(last, last + dof, next, last, std::plus<>());
      terms[k].weight = weight;
      if (fields[kTarget].given()) terms[k].target = take(fields[kTarget]);
    }
    if (fields[kLimitWeight].given()) {
      terms[k].limit_weight = take(fields[kLimitWeight]);
      terms[k].lower = take(fields[kLower]);
      terms[k].upper = take(fields[kUpper]);
    }
  }
}

template <class Scalar>
void run(const CostCall& call, const Checked& sizes, int threads) {
  const int64_t dof = sizes.dof, size = sizes.rows * dof, actions = sizes.actions * dof;
  const CostLoop cost_of = loops().quadratic_cost;
  Scalar *const cost = call.cost.as<Scalar>(), *const grad_action = call.grad_action.as<Scalar>();
  const bool wants = grad_action != nullptr || std::any_of(call.grad_ends, call.grad_ends + kEnds, [](auto& a) { return a.given(); });
  const bool own = std::any_of(call.terms, call.terms + kOutputs, is_per_trajectory);
  const int64_t term_size = kOutputs * kTermArrays * size;
  thread_local std::vector<double> memory;
  CostTerm shared[kOutputs] = {};
  fill(call, sizes, 0, /*per_trajectory=*/false, grown(memory, term_size), shared);
  in_tiles(call.map, sizes, own ? term_size : 0, threads, [&](Tile& tile, int64_t begin, int64_t count, double* own_terms) {
    CostTerm terms[kOutputs];
    std::copy_n(shared, kOutputs, terms);
    for (int64_t b = 0; b < count; ++b) {
      if (own) fill(call, sizes, begin + b, /*per_trajectory=*/true, own_terms, terms);
      double* outputs[kOutputs];
      for (int k = 0; k < kOutputs; ++k) outputs[k] = tile.motion.output[k] + b * size;
      cost[begin + b] = static_cast<Scalar>(cost_of(terms, size, outputs));
    }
    if (!wants) return;
    Problem<double> back = tile.back();
    for (int k = 0; k < kOutputs; ++k) back.output[k] = terms[k].counts() ? back.output[k] : nullptr;
    for (int k = 0; k < kEnds; ++k) {
      if (call.grad_ends[k].given()) back.end[k] = call.grad_ends[k].as<double>() + begin * dof;
    }
    if (grad_action != nullptr) back.action = tile.motion.action;
    tile.run(back, count);
    if (grad_action != nullptr) std::copy_n(back.action, count * actions, grad_action + begin * actions);
  });
}

}  // namespace

void quadratic_cost(const CostCall& call, int threads) {
  const Checked sizes(call.map, /*any_type=*/true);
  for (const Fields& fields : call.terms) expect_fields(fields, sizes);
  expect(call.cost.is_real() && call.cost.has_shape({sizes.batch}), Wrong::kValue, "cost: expected [batch], got ", call.cost);
  const Array& gradient = call.grad_action;
  expect(!gradient.given() || (gradient.type == call.cost.type && gradient.has_shape({sizes.batch, sizes.actions, sizes.dof})),
         Wrong::kValue, "gradient of the action: expected its shape and the cost's type, got ", gradient);
  for (int k = 0; k < kEnds; ++k) {
    const Array& of_end = call.grad_ends[k];
    const bool exists = k < kStartRows || call.map.has_goal;
    expect(!of_end.given() || (exists && of_end.type == 'd' && of_end.has_shape({sizes.batch, sizes.dof})), Wrong::kValue,
           "gradients of start and goal: expected float64 [batch, dof], got ", of_end);
  }
  with_scalar(call.cost.type, [&](auto zero) { run<decltype(zero)>(call, sizes, threads); });
}

void dt_gradient(const Call& call, const Array& result, int threads) {
  const Checked sizes(call);
  expect_outputs(call, sizes, "upstream", /*all=*/false);
  expect(result.type == 'd' && result.has_shape({call.dt.shape[0], call.dt.shape[1]}), Wrong::kValue,
         "gradient of dt: expected float64 of the shape of dt, got ", result);
  const int64_t size = sizes.rows * sizes.dof, columns = call.dt.shape[1];
  const bool is_shared = call.dt.shape[0] != sizes.batch;
  std::vector<double> each(is_shared ? static_cast<size_t>(sizes.batch * columns) : 0);
  double *const total = result.as<double>(), *const by_dt = is_shared ? each.data() : total;
  in_tiles(call, sizes, kOutputs * size, threads, [&](Tile& tile, int64_t begin, int64_t count, double* gradients) {
    Problem<double> back = tile.back();
    for (int k = 0; k < kOutputs; ++k) {
      back.output[k] = call.outputs[k].given() ? Tile::taken(gradients, count * size) : nullptr;
      if (back.output[k] != nullptr) load(back.output[k], call.outputs[k], begin * size, count * size);
    }
    back.by_dt = by_dt + begin * columns;
    back.at = &tile.motion;
    tile.run(back, count);
  });
  if (!is_shared) return;
  std::fill_n(total, columns, 0.0);
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t h = 0; h < columns; ++h) total[h] += each[static_cast<size_t>(b * columns + h)];
  }
}

}  // namespace traj_integrator
