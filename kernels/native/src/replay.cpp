// A launch from Python takes tens of microseconds: checks, names, dictionaries, Triton's own cache key. Their result is
// the same for every call with the same shapes, so the launchers in Python compute it once, and it is kept as a plan:
// which machine code, how many programs, and for each argument which tensor or number. This file looks plans up and
// launches them with cuLaunchKernel.
#include "replay.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/object_ptr.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "device.h"

namespace traj_integrator {
namespace {

namespace py = pybind11;
using at::Tensor;

// Of the CUDA driver: cuLaunchKernel, cuCtxGetCurrent, cuCtxSetCurrent.
using LaunchKernel = int (*)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** parameters,
                             void** extra);
using GetContext = int (*)(void** context);
using SetContext = int (*)(void* context);

// Number of plans that are kept; when there are more, all are dropped and recorded again.
constexpr size_t kMostPlans = 1024;

// The kinds of kernel arguments; replay.py uses the same numbers.
enum class Source : int64_t { kInput, kResult, kTemporary, kInt32, kInt64 };

struct Argument {
  Source source;
  int64_t value;  // place of the tensor, or the number
};

struct Launch {
  void* function;
  unsigned programs;
  unsigned threads;
  unsigned shared;
  std::vector<Argument> arguments;
};

struct Plan {
  std::vector<Launch> launches;
  std::vector<int64_t> temporaries;  // bytes
  void* context = nullptr;
};

// Everything on which a plan depends: direction and map, shapes, dtypes, which tensors are given.
using Key = std::vector<int64_t>;

struct KeyHash {
  size_t operator()(const Key& key) const {
    size_t hash = 14695981039346656037ULL;
    for (const int64_t part : key) hash = (hash ^ static_cast<size_t>(part)) * 1099511628211ULL;
    return hash;
  }
};

void add_tensor(Key& key, const Tensor& tensor) {
  if (!tensor.defined()) {
    key.push_back(-1);
    return;
  }
  key.push_back(static_cast<int64_t>(tensor.scalar_type()));
  key.insert(key.end(), tensor.sizes().begin(), tensor.sizes().end());
}

template <class Tensors>
py::tuple as_tuple(const Tensors& tensors) {
  py::tuple result(tensors.size());
  for (size_t k = 0; k < tensors.size(); ++k) {
    result[k] = tensors[k].defined() ? py::cast(tensors[k]) : py::object(py::none());
  }
  return result;
}

class Replay : public DeviceKernels {
 public:
  Replay(c10::DeviceType type, LaunchKernel launch, GetContext get, SetContext set, py::object stream, py::object record)
      : DeviceKernels(type), launch_(launch), get_context_(get), set_context_(set), stream_(std::move(stream)),
        record_(std::move(record)) {}

  void forward(ControlMap map, const Tensor& action, const OptionalTensors& start, const Tensor& index, const Tensor& dt,
               const Outputs& outputs) override {
    const std::array<Tensor, 7> inputs{action, start[0], start[1], start[2], start[3], index, dt};
    Key key = begin_key(map, false, 0, action);
    run(std::move(key), inputs, outputs);
  }

  void vjp(ControlMap map, const OptionalTensors& upstream, const Tensor& index, const Tensor& dt, int64_t action_horizon,
           bool truncate_terminal, const std::array<Tensor, 5>& gradients) override {
    const std::array<Tensor, 6> inputs{upstream[0], upstream[1], upstream[2], upstream[3], index, dt};
    Key key = begin_key(map, true, truncate_terminal, dt);
    key.push_back(action_horizon);
    run(std::move(key), inputs, gradients);
  }

  size_t plans() const { return plans_.size(); }

 private:
  static Key begin_key(ControlMap map, bool vjp, bool truncate, const Tensor& like) {
    Key key;
    key.reserve(48);
    key.insert(key.end(), {static_cast<int64_t>(map), vjp, truncate, like.device().index()});
    return key;
  }

  template <class Inputs, class Results>
  void run(Key key, const Inputs& inputs, const Results& results) {
    for (const Tensor& tensor : inputs) add_tensor(key, tensor);
    for (const Tensor& tensor : results) add_tensor(key, tensor);
    const c10::DeviceGuard guard(device_of(inputs));
    std::shared_ptr<const Plan> plan;
    void* stream = nullptr;
    {
      const py::gil_scoped_acquire lock;  // guards the plans, too
      const auto found = plans_.find(key);
      if (found == plans_.end()) {
        // The first call of a kind does its work in Python.
        std::shared_ptr<const Plan> recorded = record(key, inputs, results);
        if (plans_.size() >= kMostPlans) plans_.clear();
        plans_.emplace(std::move(key), std::move(recorded));
        return;
      }
      plan = found->second;
      if (plan == nullptr) {
        record(key, inputs, results);  // a kind of call that Python has to do
        return;
      }
      stream = current_stream(guard.current_device().index());
    }
    start(*plan, inputs, results, stream);
  }

  template <class Inputs>
  static c10::Device device_of(const Inputs& inputs) {
    for (const Tensor& tensor : inputs) {
      if (tensor.defined()) return tensor.device();
    }
    return c10::Device(c10::DeviceType::CPU);
  }

  void* current_stream(c10::DeviceIndex device) const {
    const py::object handle = stream_(static_cast<int>(device));
    return PyLong_AsVoidPtr(handle.ptr());
  }

  // Lets Python do the work and describe its launches; null if they cannot be repeated from here.
  template <class Inputs, class Results>
  std::shared_ptr<const Plan> record(const Key& key, const Inputs& inputs, const Results& results) const {
    const bool is_vjp = key[1] != 0;
    const int64_t action_horizon = is_vjp ? key[4] : 0;
    const py::object recorded =
        record_(key[0], is_vjp, key[2] != 0, action_horizon, as_tuple(inputs), as_tuple(results));
    if (recorded.is_none()) return nullptr;
    auto plan = std::make_shared<Plan>();
    const auto [temporaries, launches] =
        recorded.cast<std::pair<std::vector<int64_t>, std::vector<std::tuple<
            uintptr_t, unsigned, unsigned, unsigned, std::vector<std::pair<int64_t, int64_t>>>>>>();
    plan->temporaries = temporaries;
    for (const auto& [function, programs, threads, shared, arguments] : launches) {
      Launch launch{reinterpret_cast<void*>(function), programs, threads, shared, {}};
      for (const auto& [source, value] : arguments) launch.arguments.push_back({static_cast<Source>(source), value});
      plan->launches.push_back(std::move(launch));
    }
    if (get_context_ != nullptr) check(get_context_(&plan->context), "cuCtxGetCurrent");
    return plan;
  }

  template <class Inputs, class Results>
  void start(const Plan& plan, const Inputs& inputs, const Results& results, void* stream) const {
    if (get_context_ != nullptr) {
      // A thread of autograd that has not used the device yet has no context.
      void* context = nullptr;
      check(get_context_(&context), "cuCtxGetCurrent");
      if (context == nullptr) check(set_context_(plan.context), "cuCtxSetCurrent");
    }
    std::vector<Tensor> temporaries;
    for (const int64_t bytes : plan.temporaries) {
      temporaries.push_back(at::empty({bytes}, at::TensorOptions(device_of(inputs)).dtype(at::kByte)));
    }
    constexpr size_t kMostArguments = 32;
    for (const Launch& launch : plan.launches) {
      std::array<int64_t, kMostArguments> values{};  // a kernel's last two are scratch memory, which these do not use
      std::array<void*, kMostArguments> places;
      for (size_t i = 0; i < kMostArguments; ++i) places[i] = &values[i];
      TORCH_INTERNAL_ASSERT(launch.arguments.size() + 2 <= kMostArguments);
      for (size_t i = 0; i < launch.arguments.size(); ++i) {
        const auto [source, value] = launch.arguments[i];
        const auto place = static_cast<size_t>(value);
        const auto address = [](const Tensor& tensor) { return reinterpret_cast<int64_t>(tensor.data_ptr()); };
        switch (source) {
          case Source::kInput: values[i] = address(inputs.at(place)); break;
          case Source::kResult: values[i] = address(results.at(place)); break;
          case Source::kTemporary: values[i] = address(temporaries.at(place)); break;
          case Source::kInt32:  // little endian: the lower half comes first
          case Source::kInt64: values[i] = value; break;
        }
      }
      check(launch_(launch.function, launch.programs, 1, 1, launch.threads, 1, 1, launch.shared, stream, places.data(),
                    nullptr),
            "cuLaunchKernel");
    }
  }

  static void check(int error, const char* what) {
    TORCH_CHECK(error == 0, what, " failed with the error ", error, " of the CUDA driver (cuda.h: CUresult)");
  }

  const LaunchKernel launch_;
  const GetContext get_context_;
  const SetContext set_context_;
  const py::object stream_, record_;
  std::unordered_map<Key, std::shared_ptr<const Plan>, KeyHash> plans_;
};

Replay* replay = nullptr;  // owned; never deleted, since a call may be under way

}  // namespace

// replay_on(device_type, cuLaunchKernel, cuCtxGetCurrent, cuCtxSetCurrent, current_stream, record)
//
// After this call the public functions launch plans on devices of this type; None as the type ends this.
PyObject* replay_on(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count == 6, "replay_on: expected 6 arguments, got ", count);
  if (args[0] == Py_None) {
    replay = nullptr;
    set_device_kernels(nullptr);
    Py_RETURN_NONE;
  }
  const auto type = c10::Device(py::handle(args[0]).cast<std::string>()).type();
  const auto address = [&](int k) { return reinterpret_cast<void*>(py::handle(args[k]).cast<uintptr_t>()); };
  replay = new Replay(type, reinterpret_cast<LaunchKernel>(address(1)), reinterpret_cast<GetContext>(address(2)),
                      reinterpret_cast<SetContext>(address(3)), py::reinterpret_borrow<py::object>(args[4]),
                      py::reinterpret_borrow<py::object>(args[5]));
  set_device_kernels(replay);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

// replay_plans() -> int: how many are kept.
PyObject* replay_plans(PyObject*, PyObject*) {
  return PyLong_FromSize_t(replay == nullptr ? 0 : replay->plans());
}

}  // namespace traj_integrator
