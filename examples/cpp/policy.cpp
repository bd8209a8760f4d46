// Runs a policy compiled by export_policy.py, a network whose last layer is a trajectory step, without Python:
//
//   policy policy.pt2
//
// prints the positions, velocities, accelerations and jerks that it answers to two observations.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>

namespace {

// Numbers that are easy to compute in any language: sin(first), sin(first + 1), ...
at::Tensor sines(at::IntArrayRef shape, double first) {
  const at::Tensor angles = at::arange(first, first + c10::multiply_integers(shape), at::kDouble);
  return at::sin(angles).reshape(shape).to(at::kFloat);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: policy PACKAGE (of export_policy.py)\n");
    return 2;
  }
  torch::inductor::AOTIModelPackageLoader policy(arguments[1]);
  const at::Tensor observation = sines({2, 14}, 0), position = sines({2, 7}, 50), velocity = sines({2, 7}, 60);
  const char* names[] = {"position", "velocity", "acceleration", "jerk"};
  size_t which = 0;
  for (const at::Tensor& output : policy.run({observation, position, velocity})) {
    std::printf("%s", names[which++]);
    const at::Tensor numbers = output.contiguous().view(-1);
    for (int64_t i = 0; i < numbers.numel(); ++i) std::printf(" %.9g", numbers.data_ptr<float>()[i]);
    std::printf("\n");
  }
  return 0;
}
