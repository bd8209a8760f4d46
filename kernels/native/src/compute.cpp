#include "compute.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "instruction_set.h"

namespace traj_integrator {
namespace {

// Elements below which a second thread costs more than it saves; a row of fewer joints takes as long as one of three.
constexpr int64_t kGrainElements = 32768, kLeastJoints = 3;
// Number of doubles of start rows that are collected before they are summed.
constexpr int64_t kRowElements = 1 << 17;

// Memory of this thread that is kept for the next call.
double* scratch_memory(std::vector<double>& memory, int64_t elements) {
  if (memory.size() < static_cast<size_t>(elements)) memory.resize(static_cast<size_t>(elements));
  return memory.data();
}

// One step length where the steps, `horizon` of them for all trajectories, are equal: the loops for that are quicker.
StepLengths simplified(const StepLengths& dt, int64_t horizon) {
  if (dt.step_stride == 0 || dt.batch_stride != 0) return dt;
  const bool equal = std::all_of(dt.data, dt.data + horizon, [&](double step) { return step == *dt.data; });
  return equal ? StepLengths{dt.data, 0, 0} : dt;
}

// Loops that write every row once, right after they have read it: their stores go to memory while they compute.
// Streaming the results from a staging area would interrupt that (10,000 x 32 x 7 on one core: 2.5 ms instead of 1.9).
// The other loops return to a block of rows for each output.
bool writes_as_it_goes(ControlMap map, const StepLengths& dt, int64_t dof, int64_t horizon) {
  if (map == ControlMap::kCliqueCentral) return true;
  return map == ControlMap::kClique ? dt.step_stride == 0 : rows_in_registers(dof, horizon);
}

template <class Problem>
void run(Loop<Problem> loop, const Problem& problem, int64_t begin, int64_t end, int64_t horizon) {
  const int64_t dof = problem.dof;
  const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, horizon * std::max(dof, kLeastJoints)));
  at::parallel_for(begin, end, grain, [&](int64_t first, int64_t last) {
    thread_local std::vector<double> scratch;
    const int64_t staging = problem.staged * kOutputs * horizon * dof;  // doubles: large enough
    loop(problem, first, last, scratch_memory(scratch, scratch_size(horizon, dof) + staging));
  });
}

// total[row of b] += rows[b], in the order of the trajectories; `rows` begins at trajectory `begin`.
void add_rows(double* total, int64_t pool, const double* rows, int64_t begin, int64_t end, int64_t dof,
              const StartIndex& index) {
  for (int64_t b = begin; b < end; ++b) {
    double* to = total + (pool == 1 ? 0 : index(b)) * dof;
    const double* from = rows + (b - begin) * dof;
    for (int64_t d = 0; d < dof; ++d) to[d] += from[d];
  }
}

}  // namespace

template <class Scalar>
void compute(ForwardProblem<Scalar> problem, int64_t batch) {
  const int64_t horizon = output_horizon(problem.map, problem.action_horizon);
  problem.dt = simplified(problem.dt, problem.action_horizon);
  if (!writes_as_it_goes(problem.map, problem.dt, problem.dof, problem.action_horizon)) {
    problem.staged = staged_trajectories(batch, horizon * problem.dof, kOutputs, sizeof(Scalar));
  }
  run(forward_loop<Scalar>(), problem, 0, batch, horizon);
}

template <class Scalar>
void compute(VjpProblem<Scalar> problem, int64_t batch, const StartGradients<Scalar>& starts) {
  const int64_t dof = problem.dof, horizon = output_horizon(problem.map, problem.action_horizon);
  problem.dt = simplified(problem.dt, problem.action_horizon);
  problem.staged = staged_trajectories(batch, problem.action_horizon * dof, 1, sizeof(Scalar));
  problem.wants_start = false;
  bool summed[kStartRows] = {};
  int64_t sums = 0, totals = 0;
  for (int k = 0; k < kStartRows; ++k) {
    problem.start[k] = nullptr;
    problem.start_row[k] = nullptr;
    if (starts.data[k] == nullptr) continue;
    problem.wants_start = true;
    summed[k] = starts.index.data != nullptr || starts.rows[k] != batch;
    if (summed[k]) {
      ++sums;
      totals += starts.rows[k] * dof;
    } else {
      problem.start_row[k] = starts.data[k];
    }
  }
  if (sums == 0) return run(vjp_loop<Scalar>(), problem, 0, batch, horizon);

  // One part of the batch at a time, so that its start rows take little memory.
  const int64_t part = std::clamp<int64_t>(kRowElements / std::max<int64_t>(1, dof), 1, std::max<int64_t>(1, batch));
  thread_local std::vector<double> memory;
  double* const rows = scratch_memory(memory, sums * part * dof + totals);
  std::fill_n(rows + sums * part * dof, totals, 0.0);
  for (int64_t begin = 0; begin < batch; begin += part) {
    const int64_t end = std::min(batch, begin + part);
    double* next = rows;
    for (int k = 0; k < kStartRows; ++k) {
      if (!summed[k]) continue;
      problem.start[k] = next - begin * dof;  // the loops count from trajectory 0
      next += part * dof;
    }
    run(vjp_loop<Scalar>(), problem, begin, end, horizon);
    double* total = rows + sums * part * dof;
    for (int k = 0; k < kStartRows; ++k) {
      if (!summed[k]) continue;
      add_rows(total, starts.rows[k], problem.start[k] + begin * dof, begin, end, dof, starts.index);
      total += starts.rows[k] * dof;
    }
  }
  const double* total = rows + sums * part * dof;
  for (int k = 0; k < kStartRows; ++k) {
    if (!summed[k]) continue;
    const int64_t size = starts.rows[k] * dof;
    for (int64_t i = 0; i < size; ++i) starts.data[k][i] = static_cast<Scalar>(total[i]);
    total += size;
  }
}

template void compute(ForwardProblem<float>, int64_t);
template void compute(ForwardProblem<double>, int64_t);
template void compute(VjpProblem<float>, int64_t, const StartGradients<float>&);
template void compute(VjpProblem<double>, int64_t, const StartGradients<double>&);

}  // namespace traj_integrator
