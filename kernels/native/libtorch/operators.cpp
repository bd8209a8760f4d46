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

#include "autograd.h"

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

  template <size_t count>
  std::array<bool, count> booleans() {
    const c10::List<bool> given = next().toBoolList();
    std::array<bool, count> result{};
    for (size_t k = 0; k < std::min(count, given.size()); ++k) result[k] = given[k];
    return result;
  }

  // `count` tensors of four; the others are undefined.
  Four tensors(size_t count) {
    Four result;
    for (size_t k = 0; k < count; ++k) result[k] = tensor();
    return result;
  }

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
size_t starts_of(const std::string& name) { return is_central(name) || is_spline(name) ? 4 : 3; }

// The map of an operator, `<map>_forward` or `<map>_vjp`, whose scheme is in its arguments.
Map map_of(Arguments& arguments) {
  std::string name = arguments.name().substr(0, arguments.name().rfind('_'));
  Map map;
  if (is_spline(name)) {
    const int64_t degree = arguments.integer(), steps = arguments.integer();
    const std::string& layout = arguments.text();
    TORCH_CHECK_VALUE(layout == "tight" || layout == "curobo", "layout: expected 'tight' or 'curobo', got '", layout, "'");
    map.spline = &form_of({degree, steps, layout == "tight" ? SplineLayout::kTight : SplineLayout::kCurobo});
    return map;
  }
  if (name == "acceleration") name += "_" + arguments.text();
  if (is_central(name)) map.truncate_terminal = arguments.boolean();
  for (const ControlMapRow& row : kControlMaps) {
    if (name != row.name) continue;
    map.map = row.map;
    return map;
  }
  TORCH_CHECK_VALUE(false, arguments.name(), ": there is no map ", name);
}

// 0 rows without an index: one for each trajectory (`own_rows` in types.py).
int64_t counted(int64_t rows, const Tensor& index, const Four& upstream) {
  if (rows != 0 || index.defined()) return rows;
  for (const Tensor& gradient : upstream) {
    if (gradient.defined()) return gradient.size(0);
  }
  return rows;
}

template <class Tensors>
void push(Stack* stack, const Tensors& tensors, size_t count) {
  for (size_t k = 0; k < count; ++k) stack->emplace_back(tensors[k]);
}

void step_forward(const c10::OperatorHandle& called, Stack* stack) {
  Arguments given(called, stack);
  Step step{};
  step.action = given.tensor();
  step.start.rows = given.tensors(starts_of(given.name()));
  step.start.index = given.tensor();
  if (is_spline(given.name())) {
    step.goal.rows = given.tensors(4);
    step.goal.index = given.tensor();
  }
  step.dt = given.step_lengths();
  step.map = map_of(given);
  push(stack, differentiable_step(step), 4);
}

void step_vjp(const c10::OperatorHandle& called, Stack* stack) {
  Arguments given(called, stack);
  const bool takes_goal = is_spline(given.name());
  StepVjp vjp{};
  vjp.upstream = given.tensors(4);
  vjp.start_index = given.tensor();
  if (takes_goal) vjp.goal_index = given.tensor();
  vjp.dt = given.step_lengths();
  vjp.start_rows = counted(given.integer(), vjp.start_index, vjp.upstream);
  vjp.goal_rows = takes_goal ? counted(given.integer(), vjp.goal_index, vjp.upstream) : -1;
  vjp.actions = given.integer();
  vjp.needs = given.booleans<9>();
  vjp.map = map_of(given);
  push(stack, differentiable_vjp(vjp), takes_goal ? 9 : 1 + starts_of(given.name()));
}

// "Tensor? start_position, Tensor? start_velocity, ...", `count` of them.
std::string tensors(const std::string& type, const std::string& before, size_t count) {
  std::string text;
  for (const char* kind : {"position", "velocity", "acceleration", "jerk"}) {
    if (count-- == 0) break;
    text += (text.empty() ? "" : ", ") + type + " " + before + kind;
  }
  return text;
}

// The schemas are those of `StepOperator`; test/examples/test_cpp.py compares them.
void define(torch::Library& library, const std::string& map, size_t starts, bool takes_goal, const std::string& scheme) {
  const std::string row = "Tensor?", forward_ends = tensors(row, "start_", starts) + ", Tensor? start_index, " +
                                      (takes_goal ? tensors(row, "goal_", 4) + ", Tensor? goal_index, " : "");
  const std::string last = "Tensor dt, ", tail = scheme + "str? backend) -> (";
  const std::string outputs = tensors("Tensor", "", 4) + ")";
  const std::string indices = std::string("Tensor? start_index, ") + (takes_goal ? "Tensor? goal_index, " : "");
  const std::string counts = std::string("SymInt start_rows, ") + (takes_goal ? "SymInt goal_rows, " : "");
  const std::string gradients = "Tensor grad_action, " + tensors("Tensor", "grad_start_", starts) +
                                (takes_goal ? ", " + tensors("Tensor", "grad_goal_", 4) : "") + ")";
  const std::string forward = map + "_forward(Tensor action, " + forward_ends + last + tail + outputs;
  const std::string vjp = map + "_vjp(" + tensors(row, "grad_", 4) + ", " + indices + last + counts +
                          "SymInt action_horizon, bool[] needs, " + tail + gradients;
  using torch::CppFunction;
  library.def(forward.c_str(), CppFunction::makeFromBoxedFunction<&step_forward>());
  library.def(vjp.c_str(), CppFunction::makeFromBoxedFunction<&step_vjp>());
}

// While the library is loaded. Where Python has registered the operators, they stay as they are.
struct Registration {
  Registration() {
    if (c10::Dispatcher::singleton().findSchema({"traj_integrator::clique_forward", ""}).has_value()) return;
    library.emplace(torch::Library::FRAGMENT, "traj_integrator", std::nullopt, __FILE__, __LINE__);
    for (const char* map : {"clique", "velocity", "jerk"}) define(*library, map, 3, false, "");
    define(*library, "clique_central", 4, false, "bool truncate_terminal_gradient, ");
    define(*library, "acceleration", 3, false, "str integrator, ");
    define(*library, "bspline", 4, true, "int degree, int steps, str layout, ");
  }

  std::optional<torch::Library> library;
} const registration;

}  // namespace
}  // namespace traj_integrator
