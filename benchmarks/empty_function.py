"""The floor of every differentiable step: an autograd function in C++ that allocates its results and computes nothing.

Compiled at first use, into build/bench.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from torch import Tensor
from torch.utils.cpp_extension import load_inline

BUILD = Path(__file__).resolve().parent.parent / "build" / "bench" / "empty_function"
SOURCE = """
#include <torch/extension.h>

struct Empty : torch::autograd::Function<Empty> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, const at::Tensor& action,
                                                const at::Tensor& start) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({start});
    return {at::empty_like(action), at::empty_like(action), at::empty_like(action), at::empty_like(action)};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& upstream) {
    ctx->get_saved_variables();
    return {at::empty_like(upstream[0]), at::Tensor()};
  }
};

std::vector<at::Tensor> empty(const at::Tensor& action, const at::Tensor& start) { return Empty::apply(action, start); }
"""


@functools.cache
def empty_function() -> Callable[[Tensor, Tensor], list[Tensor]]:
    """Return a function of action and start rows with four outputs like the action."""
    BUILD.mkdir(parents=True, exist_ok=True)
    module = load_inline("empty_function", SOURCE, functions=["empty"], build_directory=str(BUILD))
    return module.empty
