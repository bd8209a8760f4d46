"""The 29 names of cuRobo's `curobo.rollout.dynamics_model.integration_utils`: code written for it changes one import.

Same names, argument order and results; written from a description of the interface, with these differences, all
documented in docs/kernels.md: starts that move are exact, the acceleration kernels integrate exactly and have a
backward, and gradients exist for the start state and dt, to any order.

New code should use the functional steps of `traj_integrator_ros.kernels`: they take dt in seconds, need no
buffers, and compile into one graph, while the kernels here write into memory that `torch.compile` cannot follow (it
breaks the graph at the call; with `fullgraph=True` it raises).
"""

from .dropin.joint_state import JointState as JointState
from .dropin.joint_state import TensorDeviceType as TensorDeviceType
from .dropin.matrices import action_interpolate_kernel as action_interpolate_kernel
from .dropin.matrices import build_clique_matrix as build_clique_matrix
from .dropin.matrices import build_fd_matrix as build_fd_matrix
from .dropin.matrices import build_int_matrix as build_int_matrix
from .dropin.matrices import build_start_state_mask as build_start_state_mask
from .dropin.matrices import interpolate_kernel as interpolate_kernel
from .dropin.matrices import sum_matrix as sum_matrix
from .dropin.matrices import tensor_linspace as tensor_linspace
from .dropin.step_kernels import AccelerationTensorStepIdxKernel as AccelerationTensorStepIdxKernel
from .dropin.step_kernels import AccelerationTensorStepKernel as AccelerationTensorStepKernel
from .dropin.step_kernels import CliqueTensorStepCentralDifferenceKernel as CliqueTensorStepCentralDifferenceKernel
from .dropin.step_kernels import CliqueTensorStepCoalesceKernel as CliqueTensorStepCoalesceKernel
from .dropin.step_kernels import (
    CliqueTensorStepIdxCentralDifferenceKernel as CliqueTensorStepIdxCentralDifferenceKernel,
)
from .dropin.step_kernels import CliqueTensorStepIdxKernel as CliqueTensorStepIdxKernel
from .dropin.step_kernels import CliqueTensorStepKernel as CliqueTensorStepKernel
from .dropin.steps import CliqueTensorStep as CliqueTensorStep
from .dropin.steps import euler_integrate as euler_integrate
from .dropin.steps import jit_backward_pos_clique as jit_backward_pos_clique
from .dropin.steps import jit_backward_pos_clique_contiguous as jit_backward_pos_clique_contiguous
from .dropin.steps import jit_tensor_step_pos_clique as jit_tensor_step_pos_clique
from .dropin.steps import jit_tensor_step_pos_clique_contiguous as jit_tensor_step_pos_clique_contiguous
from .dropin.steps import step_acc_semi_euler as step_acc_semi_euler
from .dropin.steps import tensor_step_acc as tensor_step_acc
from .dropin.steps import tensor_step_acc_semi_euler as tensor_step_acc_semi_euler
from .dropin.steps import tensor_step_jerk as tensor_step_jerk
from .dropin.steps import tensor_step_pos as tensor_step_pos
from .dropin.steps import tensor_step_pos_clique as tensor_step_pos_clique
from .dropin.steps import tensor_step_pos_ik as tensor_step_pos_ik
from .dropin.steps import tensor_step_vel as tensor_step_vel
