// The operators of the Python package for programs without Python: what torch.export keeps of a policy that ends in a
// step, and AOTInductor calls, by these names. Not in the Python extension: there Python registers them.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "linear.h"

namespace traj_integrator {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

// Reads the arguments of a call from the first to the last.
class Arguments {
 public:
  Arguments(const c10::OperatorHandle& called, Stack* stack)
      : name_(called.schema().name().substr(sizeof("traj_integrator::") - 1)),
        values_(torch::jit::pop(*stack, called.schema().arguments().size())) {
    for (const IValue& value : values_) {
      TORCH_CHECK_VALUE(!value.isTensor() || !value.toTensor().defined() || value.toTensor().device().is_cpu(), name_,
                        ": without Python it computes on the CPU only, got a tensor on ", value.toTensor().device());
    }
    const IValue& backend = values_.back();
    TORCH_CHECK_VALUE(backend.isNone() || backend.toStringRef() == "native", name_,
                      ": backend: without Python there is only 'native', got ", backend);
  }

  const std::string& name() const { return name_; }
  Tensor tensor() { return next().isNone() ? Tensor() : values_[at_ - 1].toTensor(); }
  int64_t integer() { return next().toInt(); }
  bool boolean() { return next().toBool(); }
  const std::string& text() { return next().toStringRef(); }

  Needs needs() {
    const c10::List<bool> given = next().toBoolList();
    Needs result{};
    std::copy_n(given.begin(), std::min(result.size(), given.size()), result.begin());
    return result;
  }

  // Reads so many tensors; the others stay undefined.
  void tensors(Tensor* to, size_t count) { std::generate_n(to, count, [this] { return tensor(); }); }

  // The C++ functions have no derivative by step lengths.
  Tensor step_lengths() {
    const Tensor dt = tensor();
    TORCH_CHECK_NOT_IMPLEMENTED(!(at::GradMode::is_enabled() && dt.requires_grad()), name_,
                                ": without Python it has no derivative by dt; detach it");
    return dt;
  }

 private:
  const IValue& next() { return values_[at_++]; }

  std::string name_;
  std::vector<IValue> values_;
  size_t at_ = 0;
};

bool is_spline(const std::string& name) { return name.rfind("bspline", 0) == 0; }
bool is_central(const std::string& name) { return name.rfind("clique_central", 0) == 0; }

// Takes the map of an operator, `<map>_forward` or `<map>_vjp`, whose scheme is in its arguments.
void take_map(Arguments& arguments, Linear& linear) {
  std::string name = arguments.name().substr(0, arguments.name().rfind('_'));
  if (is_spline(name)) {
    const int64_t degree = arguments.integer(), steps = arguments.integer();
    const std::string& layout = arguments.text();
    TORCH_CHECK_VALUE(layout == "tight" || layout == "curobo", "layout: expected 'tight' or 'curobo', got '", layout, "'");
    linear.spline = &form_of({degree, steps, layout == "tight" ? SplineLayout::kTight : SplineLayout::kCurobo});
    return;
  }
  if (name == "acceleration") name += "_" + arguments.text();
  if (is_central(name)) linear.truncate_terminal = arguments.boolean();
  const auto* const row = std::find_if(std::begin(kControlMaps), std::end(kControlMaps), [&](auto& row) { return name == row.name; });
  TORCH_CHECK_VALUE(row != std::end(kControlMaps), arguments.name(), ": there is no map ", name);
  linear.map = row->map;
}

template <class Tensors>
void push(Stack* stack, const Tensors& tensors) {
  for (const Tensor& tensor : tensors) stack->emplace_back(tensor);
}

void step_forward(const c10::OperatorHandle& called, Stack* stack) {
  Arguments given(called, stack);
  Linear linear;
  Nine inputs;
  given.tensors(inputs.data(), inputs.size());
  given.tensors(linear.index, 2);
  linear.dt = given.step_lengths();
  linear.take_sizes(inputs);
  take_map(given, linear);
  push(stack, differentiable_step(linear, inputs));
}

void step_vjp(const c10::OperatorHandle& called, Stack* stack) {
  Arguments given(called, stack);
  Linear linear;
  Four upstream;
  given.tensors(upstream.data(), 4);
  given.tensors(linear.index, 2);
  linear.dt = given.step_lengths();
  for (int end = 0; end < 2; ++end) {
    linear.rows[end] = given.integer();
    // Without an index, 0 rows mean one for each trajectory (`encoded_rows` in types.py).
    if (linear.rows[end] == 0 && !linear.index[end].defined()) linear.rows[end] = first_defined(upstream).size(0);
  }
  linear.actions = given.integer();
  const Needs needs = given.needs();
  take_map(given, linear);
  push(stack, differentiable_vjp(linear, upstream, needs));
}

// "<type> <before>position, <type> <before>velocity, ...", each with a comma behind it.
std::string tensors(const std::string& type, const std::string& before) {
  std::string text;
  for (const char* kind : {"position", "velocity", "acceleration", "jerk"}) text += type + " " + before + kind + ", ";
  return text;
}

// The schemas are those of `Signature`; test/examples/test_cpp.py compares them.
void define(torch::Library& library, const std::string& map, const std::string& scheme) {
  const auto both = [](const std::string& type, const std::string& before) {
    return tensors(type, before + "start_") + tensors(type, before + "goal_");
  };
  const auto results = [&](std::string named) { return scheme + "str? backend) -> (" + named.substr(0, named.size() - 2) + ")"; };
  const std::string indices = "Tensor? start_index, Tensor? goal_index, Tensor dt, ";
  const std::string forward =
      map + "_forward(Tensor action, " + both("Tensor?", "") + indices + results(tensors("Tensor", ""));
  const std::string vjp = map + "_vjp(" + tensors("Tensor?", "grad_") + indices +
                          "SymInt start_rows, SymInt goal_rows, SymInt action_horizon, bool[] needs, " +
                          results("Tensor grad_action, " + both("Tensor", "grad_"));
  using torch::CppFunction;
  library.def(forward.c_str(), CppFunction::makeFromBoxedFunction<&step_forward>());
  library.def(vjp.c_str(), CppFunction::makeFromBoxedFunction<&step_vjp>());
}

// While the library is loaded. Where Python has registered the operators, they stay as they are.
struct Registration {
  Registration() {
    if (c10::Dispatcher::singleton().findSchema({"traj_integrator::clique_forward", ""}).has_value()) return;
    library.emplace(torch::Library::FRAGMENT, "traj_integrator", std::nullopt, __FILE__, __LINE__);
    for (const char* map : {"clique", "velocity", "jerk"}) define(*library, map, "");
    define(*library, "clique_central", "bool truncate_terminal_gradient, ");
    define(*library, "acceleration", "str integrator, ");
    define(*library, "bspline", "int degree, int steps, str layout, ");
  }

  std::optional<torch::Library> library;
} const registration;

}  // namespace
}  // namespace traj_integrator
