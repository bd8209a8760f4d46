// Two planners in C++ without Python. Both move two robots that are already in motion to a goal at rest, by gradient
// descent through the integrator: on accelerations, with a cost that pulls to the goal; and on 16 control points of a
// B-spline that ends in the goal, so that only smoothness is left to optimize.
//
// `plan` prints the costs as they fall. `plan --gradients` and `plan --spline-gradients` print, for every control map
// and for splines, a cost and its gradients with respect to all inputs, for comparison with other implementations.
// `plan --into` writes to memory that it has, and shows that memory of another shape is refused.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "traj_integrator/spline.h"
#include "traj_integrator/step.h"

namespace {

using at::Tensor;
using traj_integrator::ControlMap;
using traj_integrator::StartState;
using traj_integrator::Trajectory;

constexpr double kDt = 0.02;  // s

// Numbers that are easy to compute in any language: sin(first), sin(first + 1), ...
Tensor sines(at::IntArrayRef shape, double first) {
  const Tensor angles = at::arange(c10::multiply_integers(shape), at::kDouble) + first;
  return at::sin(angles).reshape(shape);
}

double minimize() {
  const StartState start{sines({2, 7}, 0), sines({2, 7}, 100) / 10};
  const Tensor goal = start.position + 0.3;
  Tensor action = at::zeros({2, 64, 7}, at::kDouble).requires_grad_();
  Tensor momentum = at::zeros_like(action);
  double cost = 0;
  for (int iteration = 0; iteration <= 300; ++iteration) {
    const Trajectory motion = traj_integrator::step(ControlMap::kAccelerationZoh, action, start, kDt);
    const Tensor end = motion.position.select(1, 63) - goal, end_velocity = motion.velocity.select(1, 63);
    const Tensor loss = 100 * end.square().sum() + 10 * end_velocity.square().sum() +
                        1e-3 * motion.acceleration.square().sum() * kDt;
    loss.backward();
    cost = loss.item<double>();
    if (iteration % 100 == 0) std::printf("iteration %3d  cost %.6f\n", iteration, cost);
    const Tensor gradient = action.grad();
    momentum = 0.9 * momentum + gradient;
    action = (action.detach() - 0.02 * momentum).requires_grad_();
  }
  return cost;
}

double minimize_spline() {
  const StartState start{sines({2, 7}, 0), sines({2, 7}, 100) / 10};
  const Tensor goal = start.position + 0.3;
  Tensor points = start.position.unsqueeze(1).repeat({1, 16, 1}).requires_grad_();
  Tensor momentum = at::zeros_like(points);
  double away = 0;
  for (int iteration = 0; iteration <= 300; ++iteration) {
    const Trajectory motion = traj_integrator::spline(points, start, {goal}, kDt);
    const Tensor loss = motion.acceleration.square().sum() * kDt;
    loss.backward();
    if (iteration % 100 == 0) std::printf("spline %3d  cost %.6f\n", iteration, loss.item<double>());
    momentum = 0.9 * momentum + points.grad();
    points = (points.detach() - 2e-5 * momentum).requires_grad_();
    away = (motion.position.select(1, -1) - goal).abs().max().item<double>();
  }
  return away;
}

void print_numbers(const char* label, const Tensor& tensor) {
  std::printf("%s", label);
  const Tensor flat = tensor.detach().contiguous().view(-1);
  for (int64_t i = 0; i < flat.numel(); ++i) std::printf(" %.17g", flat.data_ptr<double>()[i]);
  std::printf("\n");
}

void print_gradients(const char* name, ControlMap map) {
  Tensor action = sines({2, 5, 3}, 0).requires_grad_();
  Tensor position = sines({2, 3}, 50).requires_grad_();
  Tensor velocity = sines({2, 3}, 60).requires_grad_();
  Tensor acceleration = sines({2, 3}, 70).requires_grad_();
  const Trajectory motion = traj_integrator::step(map, action, {position, velocity, acceleration}, kDt);
  const Tensor cost = motion.position.square().sum() + motion.velocity.square().sum() +
                      motion.acceleration.square().sum() + motion.jerk.square().sum();
  cost.backward();
  std::printf("%s\n", name);
  print_numbers("cost", cost);
  print_numbers("action", action.grad());
  print_numbers("start_position", position.grad());
  print_numbers("start_velocity", velocity.grad());
  print_numbers("start_acceleration", acceleration.grad());
}

void print_spline_gradients(const char* name, const traj_integrator::SplineOptions& options) {
  Tensor points = sines({2, 5, 3}, 0).requires_grad_();
  Tensor position = sines({2, 3}, 50).requires_grad_();
  Tensor velocity = sines({2, 3}, 60).requires_grad_();
  Tensor goal = sines({1, 3}, 70).requires_grad_();
  Tensor acceleration = sines({1, 3}, 80).requires_grad_();
  const Trajectory motion =
      traj_integrator::spline(points, {position, velocity}, {goal, {}, acceleration}, kDt, options);
  const Tensor cost = motion.position.square().sum() + motion.velocity.square().sum() +
                      motion.acceleration.square().sum() + motion.jerk.square().sum();
  const std::vector<Tensor> leaves{points, position, velocity, goal, acceleration};
  const std::vector<Tensor> gradients = torch::autograd::grad({cost}, leaves, {}, true, /*create_graph=*/true);
  Tensor square = gradients[0].square().sum();
  for (size_t k = 1; k < leaves.size(); ++k) square = square + gradients[k].square().sum();
  const std::vector<Tensor> second = torch::autograd::grad({square}, leaves);
  std::printf("%s\n", name);
  print_numbers("cost", cost);
  for (const Tensor& gradient : gradients) print_numbers("gradient", gradient);
  for (const Tensor& gradient : second) print_numbers("second", gradient);
}

// Returns whether `step_out` writes what `step` returns, and refuses outputs that are larger, having written nothing.
bool writes_into(ControlMap map, at::ScalarType dtype) {
  const Tensor action = sines({2, 5, 3}, 0).to(dtype);
  const StartState start{sines({2, 3}, 50).to(dtype)};
  const Trajectory expected = traj_integrator::step(map, action, start, kDt);
  Trajectory out;
  const auto outputs = {&Trajectory::position, &Trajectory::velocity, &Trajectory::acceleration, &Trajectory::jerk};
  for (const auto output : outputs) out.*output = at::zeros_like(expected.*output);
  for (const auto larger : outputs) {
    Trajectory wrong = out;
    (wrong.*larger) = at::zeros_like((expected.*larger).unsqueeze(0).repeat({2, 1, 1, 1}));
    try {
      traj_integrator::step_out(map, action, start, kDt, wrong);
      return false;
    } catch (const c10::ValueError& error) {
      if (std::strncmp(error.what_without_backtrace(), "out: expected contiguous", 24) != 0) return false;
    }
    if ((wrong.*larger).count_nonzero().item<int64_t>() + out.position.count_nonzero().item<int64_t>() > 0) return false;
  }
  traj_integrator::step_out(map, action, start, kDt, out);
  return std::all_of(outputs.begin(), outputs.end(), [&](auto output) { return at::equal(out.*output, expected.*output); });
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::strcmp(arguments[1], "--gradients") == 0) {
    print_gradients("clique", ControlMap::kClique);
    print_gradients("clique_central", ControlMap::kCliqueCentral);
    print_gradients("acceleration_zoh", ControlMap::kAccelerationZoh);
    print_gradients("acceleration_semi_implicit_euler", ControlMap::kAccelerationSemiImplicitEuler);
    print_gradients("velocity", ControlMap::kVelocity);
    print_gradients("jerk", ControlMap::kJerk);
    return 0;
  }
  if (count == 2 && std::strcmp(arguments[1], "--spline-gradients") == 0) {
    using traj_integrator::SplineLayout;
    print_spline_gradients("3 4 tight", {});
    print_spline_gradients("4 3 tight", {4, 3});
    print_spline_gradients("5 2 curobo", {5, 2, SplineLayout::kCurobo});
    print_spline_gradients("3 1 curobo", {3, 1, SplineLayout::kCurobo});
    return 0;
  }
  if (count == 2 && std::strcmp(arguments[1], "--into") == 0) {
    bool all = true;
    for (const traj_integrator::ControlMapRow& row : traj_integrator::kControlMaps) {
      for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
        const bool fits = writes_into(row.map, dtype);
        std::printf("%s %s %s\n", row.name, at::toString(dtype), fits ? "written" : "WRONG");
        all = all && fits;
      }
    }
    return all ? 0 : 1;
  }
  return minimize() < 0.1 && minimize_spline() < 1e-12 ? 0 : 1;
}
