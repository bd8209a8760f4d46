"""Tests that the answer to a call is sent again where the middleware had not discovered the caller."""

from __future__ import annotations

import time
import warnings

from traj_integrator_ros.node import answers
from traj_integrator_ros.node.answers import Answers


class Service:
    """A service whose caller is discovered only after some answers; it warns as rclpy does."""

    def __init__(self, lost: int) -> None:
        self.lost, self.sent, self.tries = lost, [], 0

    def send_response(self, response: object, header: object) -> None:
        """Send an answer, or warn that it was lost."""
        self.tries += 1
        if self.tries <= self.lost:
            warnings.warn("failed to send response (timeout): client will not...", RuntimeWarning, stacklevel=2)
        else:
            self.sent.append((response, header))


def sent_within(service: Service, seconds: float) -> list[tuple[object, object]]:
    """Return what a service has sent after some time in which answers are sent again."""
    waiting = Answers()
    waiting.send(service, "response", "header")
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s and not service.sent:
        waiting.send_again()
        time.sleep(0.01)
    return service.sent


def test_an_answer_is_sent_once_its_caller_is_discovered(monkeypatch):
    monkeypatch.setattr(answers, "_AGAIN_S", 0.02)
    for lost in (0, 1, 3):
        assert sent_within(Service(lost), 5.0) == [("response", "header")]


def test_an_answer_is_given_up_when_its_caller_stays_away(monkeypatch):
    monkeypatch.setattr(answers, "_AGAIN_S", 0.02)
    service = Service(lost=100)
    assert sent_within(service, 0.5) == [] and service.tries == 4
