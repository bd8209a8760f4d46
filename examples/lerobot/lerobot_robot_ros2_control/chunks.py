"""`lerobot-rollout-chunks`: LeRobot's `lerobot-rollout` with all its options, in which whole chunks move the robot."""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import Any, NamedTuple

import torch
from lerobot.policies.utils import prepare_observation_for_inference
from lerobot.processor import RelativeActionsProcessorStep
from lerobot.rollout import InferenceEngine, RolloutConfig, RolloutContext, RTCInferenceConfig
from lerobot.scripts import lerobot_rollout
from lerobot.utils.feature_utils import build_dataset_frame

from .motion import SECOND_NS, left_over
from .paced import prepare_for_chunks

_ENDS_WITHIN_S = 3.0
"""Longest time, s, to wait for an inference that goes on while the rollout ends: that of LeRobot's engines."""
_LOG = logging.getLogger(__name__)


class Chunk(NamedTuple):
    """Actions of one inference."""

    stamp_ns: int
    """Time of the observation, by the robot's clock."""
    emitted: torch.Tensor
    """As the policy emits them, `[actions, joints]`."""
    actions: torch.Tensor
    """As the robot takes them, `[actions, joints]`."""


class WholeChunks(InferenceEngine):
    """Infers in a thread, and sends each chunk to the robot with the time of its observation.

    An inference begins when half of the actions that the policy executes of a chunk (`n_action_steps`) have passed, or
    earlier if it takes long.
    Actions are returned to LeRobot's loop when they are due, so that it records them; the robot does not execute them.

    Args:
        ctx: what LeRobot has built; its robot is one of this package.

    Raises:
        ValueError: the policy needs more than the present observation, or its actions are interpolated.

    """

    def __init__(self, ctx: RolloutContext) -> None:
        robot, cfg, config = ctx.hardware.robot_wrapper.inner, ctx.runtime.cfg, ctx.policy.policy.config
        if config.n_obs_steps != 1:
            raise ValueError(f"--policy: expected one of the present observation, got n_obs_steps {config.n_obs_steps}")
        if cfg.interpolation_multiplier != 1:
            raise ValueError(f"--interpolation_multiplier: expected 1 for chunks, got {cfg.interpolation_multiplier}")
        self._ctx, self._robot, self._period_ns = ctx, robot, round(SECOND_NS / cfg.fps)
        self._due_ns, self._passed = 0, config.n_action_steps / 2
        keys = ctx.data.ordered_action_keys
        self._columns = [keys.index(key) for key in robot.action_features]
        relative = any(
            isinstance(one, RelativeActionsProcessorStep) and one.enabled for one in ctx.policy.preprocessor.steps
        )
        self._keeps_prefix = isinstance(cfg.inference, RTCInferenceConfig) and not relative
        self._changed = threading.Condition()
        self._active = self._over = self._has_failed = False
        self._observed: tuple[dict[str, Any], int] | None = None
        self._chunk: Chunk | None = None
        self._episode, self._took_s = 0, 0.0
        self._thread = threading.Thread(target=self._infer, name="chunks", daemon=True)

    def start(self) -> None:
        """Start the thread, which waits for `resume`."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self.pause()
        with self._changed:
            self._over = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(_ENDS_WITHIN_S)

    def reset(self) -> None:
        """Forget the last chunk."""
        with self._changed:
            for one in (self._ctx.policy.policy, self._ctx.policy.preprocessor, self._ctx.policy.postprocessor):
                one.reset()
            self._observed = self._chunk = None
            self._due_ns = 0
            self._episode += 1

    def pause(self) -> None:
        """Send no chunks any more."""
        with self._changed:
            self._active = False
            self._episode += 1

    def resume(self) -> None:
        """Send chunks."""
        with self._changed:
            self._active = True
            self._changed.notify_all()

    def notify_observation(self, obs: dict[str, Any]) -> None:
        """Take the robot's latest observation."""
        with self._changed:
            self._observed = obs, self._robot.stamp_ns
            self._changed.notify_all()

    def get_action(self, obs_frame: dict[str, Any] | None) -> torch.Tensor | None:
        """Return the action of the latest chunk that is due within a period."""
        with self._changed:
            if self._chunk is None:
                return None
            passed = round((self._robot.motion.now_ns() - self._chunk.stamp_ns) / self._period_ns)
            rows = self._chunk.actions[passed:]
            self._robot.has_next = len(rows) > 0
            return rows[0] if len(rows) else None

    @property
    def failed(self) -> bool:
        """Return whether an inference has raised an error."""
        return self._has_failed

    def _infer(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._over or self._is_due())
                    if self._over:
                        return
                    observed, prefix, episode = self._observed, self._prefix(), self._episode
                chunk = self._infer_one(*observed, prefix)
                with self._changed:
                    if episode == self._episode and chunk.stamp_ns > self._robot.single_ns:
                        self._chunk = chunk
                        self._robot.send_chunk(chunk.actions[:, self._columns].numpy(), chunk.stamp_ns)
                        self._due_ns = self._robot.next_chunk_ns(chunk.stamp_ns, len(chunk.actions), self._passed)
        except Exception:
            _LOG.exception("chunks: an inference has failed")
            self._has_failed = True
            self._ctx.runtime.shutdown_event.set()

    def _is_due(self) -> bool:
        if not self._active or self._observed is None or self._observed[1] <= self._robot.single_ns:
            return False  # single actions move the robot
        return self._observed[1] >= self._due_ns

    def _prefix(self) -> dict[str, Any]:
        """Return the arguments of real-time chunking."""
        if not self._keeps_prefix:
            return {}
        left = None
        if self._chunk is not None:
            passed = (self._observed[1] - self._chunk.stamp_ns) / self._period_ns
            left = left_over(self._chunk.emitted, passed)[: self._ctx.runtime.cfg.inference.rtc.execution_horizon]
        delay = math.ceil(self._took_s * SECOND_NS / self._period_ns)
        return {"inference_delay": delay, "prev_chunk_left_over": left}

    def _infer_one(self, observation: dict[str, Any], stamp_ns: int, prefix: dict[str, Any]) -> Chunk:
        begin_s = time.perf_counter()
        cfg, policy = self._ctx.runtime.cfg, self._ctx.policy
        frame = build_dataset_frame(self._ctx.data.hw_features, observation, prefix="observation")
        frame = prepare_observation_for_inference(frame, torch.device(cfg.device), cfg.task, self._robot.name)
        emitted = policy.policy.predict_action_chunk(policy.preprocessor(frame), **prefix)
        actions = policy.postprocessor(emitted)
        chunk = Chunk(stamp_ns, emitted.detach().squeeze(0).clone(), actions.detach().squeeze(0).cpu())
        self._took_s = time.perf_counter() - begin_s
        return chunk


def main() -> None:
    """Run lerobot-rollout with this engine: LeRobot's own factory of engines knows none from elsewhere."""
    build = lerobot_rollout.build_rollout_context

    def with_chunks(cfg: RolloutConfig, *arguments: Any, **options: Any) -> RolloutContext:
        prepare_for_chunks(cfg.robot, cfg.fps)
        ctx = build(cfg, *arguments, **options)
        try:
            ctx.policy.inference = WholeChunks(ctx)
        except BaseException:
            ctx.hardware.robot_wrapper.inner.disconnect()
            raise
        return ctx

    lerobot_rollout.build_rollout_context = with_chunks
    lerobot_rollout.main()
