"""The 29 names of cuRobo's `curobo.rollout.dynamics_model.integration_utils`: code written for it changes one import.

Same names, argument order and results; written from a description of the interface, with these differences, all
documented in docs/kernels.md: starts that move are exact, the acceleration kernels integrate exactly and have a
backward, and gradients exist for the start state and dt, to any order.

New code should use the functional steps of `traj_integrator_ros.kernels`: they take dt in seconds, need no
buffers, and compile into one graph, while the kernels here write into memory that `torch.compile` cannot follow (it
breaks the graph at the call; with `fullgraph=True` it raises).
"""

from .dropin.joint_state import JointState, TensorDeviceType
from .dropin.matrices import (
    action_interpolate_kernel,
    build_clique_matrix,
    build_fd_matrix,
    build_int_matrix,
    build_start_state_mask,
    interpolate_kernel,
    sum_matrix,
    tensor_linspace,
)
from .dropin.step_kernels import (
    AccelerationTensorStepIdxKernel,
    AccelerationTensorStepKernel,
    CliqueTensorStepCentralDifferenceKernel,
    CliqueTensorStepCoalesceKernel,
    CliqueTensorStepIdxCentralDifferenceKernel,
    CliqueTensorStepIdxKernel,
    CliqueTensorStepKernel,
)
from .dropin.steps import (
    CliqueTensorStep,
    euler_integrate,
    jit_backward_pos_clique,
    jit_backward_pos_clique_contiguous,
    jit_tensor_step_pos_clique,
    jit_tensor_step_pos_clique_contiguous,
    step_acc_semi_euler,
    tensor_step_acc,
    tensor_step_acc_semi_euler,
    tensor_step_jerk,
    tensor_step_pos,
    tensor_step_pos_clique,
    tensor_step_pos_ik,
    tensor_step_vel,
)

__all__ = [
    "build_clique_matrix",
    "build_fd_matrix",
    "build_int_matrix",
    "build_start_state_mask",
    "tensor_step_jerk",
    "euler_integrate",
    "tensor_step_acc",
    "jit_tensor_step_pos_clique",
    "jit_tensor_step_pos_clique_contiguous",
    "jit_backward_pos_clique",
    "jit_backward_pos_clique_contiguous",
    "CliqueTensorStep",
    "CliqueTensorStepKernel",
    "CliqueTensorStepIdxKernel",
    "CliqueTensorStepCentralDifferenceKernel",
    "CliqueTensorStepIdxCentralDifferenceKernel",
    "CliqueTensorStepCoalesceKernel",
    "AccelerationTensorStepKernel",
    "AccelerationTensorStepIdxKernel",
    "tensor_step_pos_clique",
    "step_acc_semi_euler",
    "tensor_step_acc_semi_euler",
    "tensor_step_vel",
    "tensor_step_pos",
    "tensor_step_pos_ik",
    "tensor_linspace",
    "sum_matrix",
    "interpolate_kernel",
    "action_interpolate_kernel",
    # The two helpers that some of them take.
    "JointState",
    "TensorDeviceType",
]
