"""The driving contexts and the five agents: deep Q-learning on weighted rewards, policies as plain arrays.

Needs highway-env, mo-gymnasium and stable-baselines3 for training alone; a trained policy is three matrices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 70
TRAINING_STEPS = 20_000


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One driving context: the road and its traffic, fixed for an episode."""

    lanes_count: int
    vehicles_count: int
    vehicles_density: float
    initial_lane_id: int
    ego_spacing: float

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Configuration:
        """Draw a context as in the paper's appendix "Reinforcement-learning agent dataset"."""
        lanes = int(rng.integers(2, 6))
        return cls(
            lanes_count=lanes,
            vehicles_count=int(rng.integers(20, 61)),
            vehicles_density=float(rng.uniform(0.7, 1.5)),
            initial_lane_id=int(rng.integers(lanes)),
            ego_spacing=float(rng.uniform(0.5, 3.0)),
        )

    def reset_options(self) -> dict[str, dict[str, float]]:
        """The options of `env.reset`: every key each time, because the environment remembers them."""
        return {"config": asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Agent:
    """How one agent is trained: the weights of (speed, lane, collision) in its reward, and its discount."""

    name: str
    weights: tuple[float, float, float]
    discount: float


AGENTS = (
    Agent(name="right_lane", weights=(0.1, 0.8, 0.1), discount=0.8),
    Agent(name="fast", weights=(0.8, 0.1, 0.1), discount=0.8),
    Agent(name="balanced", weights=(0.45, 0.1, 0.45), discount=0.8),
    Agent(name="cautious", weights=(0.02, 0.0, 0.98), discount=0.99),
    Agent(name="brisk_cautious", weights=(0.2, 0.0, 0.8), discount=0.99),
)

LEARNING_CURVE = ("step", "reward", "speed", "lane", "collision", "length")


@dataclass(frozen=True)
class GreedyPolicy:
    """A trained Q-network: layers of (weight (out, in), bias (out,)) with ReLU between them."""

    layers: tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]

    def action(self, observation: NDArray[np.float32]) -> int:
        """The action of highest value for an observation of shape (5, 5)."""
        values = observation.reshape(-1)
        for i, (weight, bias) in enumerate(self.layers):
            values = weight @ (np.maximum(values, 0) if i else values) + bias
        return int(np.argmax(values))

    def save(self, path: Path) -> None:
        """Write the layers as plain arrays, whole or not at all."""
        named = {
            f"{kind}{i}": array for i, layer in enumerate(self.layers) for kind, array in zip("wb", layer, strict=True)
        }
        save_arrays(path, named)

    @classmethod
    def load(cls, path: Path) -> GreedyPolicy:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            return cls(tuple((file[f"w{i}"], file[f"b{i}"]) for i in range(len(file.files) // 2)))


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as .npz under a temporary name and rename it, so that a file that exists is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, named = path.with_suffix(".partial"), dict[str, Any](arrays)
    with partial.open("wb") as file:
        np.savez_compressed(file, **named)
    partial.replace(path)


def train(number: int, folder: Path, *, steps: int = TRAINING_STEPS) -> None:
    """Train one agent and save its policy and learning curve, unless they are there already.

    An interrupted training starts again from its seed: at a few minutes an agent that is cheaper than keeping
    the replay buffer, and the result is the same to the bit.
    """
    policy_path = folder / f"agent{number}.npz"
    if policy_path.exists():
        return
    import torch

    torch.set_num_threads(1)
    road = _training_road(AGENTS[number], np.random.default_rng([SEED, number]))
    model = _learner(road, discount=AGENTS[number].discount, seed=SEED + number)
    model.learn(total_timesteps=steps)
    curve = np.array(road.curve, dtype=np.float64).reshape(-1, len(LEARNING_CURVE))
    save_arrays(folder / f"curve{number}.npz", dict(zip(LEARNING_CURVE, curve.T, strict=True)))
    extract_policy(model).save(policy_path)


def _learner(road: Any, *, discount: float, seed: int) -> Any:
    """Deep Q-learning with the settings of HighwayEnv's quickstart example; the rest are the library's defaults."""
    from stable_baselines3 import DQN

    return DQN(
        "MlpPolicy",
        road,
        policy_kwargs={"net_arch": [256, 256]},
        learning_rate=5e-4,
        buffer_size=15_000,
        learning_starts=200,
        batch_size=32,
        gamma=discount,
        train_freq=1,
        gradient_steps=1,
        target_update_interval=50,
        seed=seed,
        device="cpu",
    )


def extract_policy(model: Any) -> GreedyPolicy:
    """The Q-network of a trained model as plain arrays."""
    linear = [layer for layer in model.policy.q_net.q_net if hasattr(layer, "weight")]
    return GreedyPolicy(tuple((x.weight.detach().numpy().copy(), x.bias.detach().numpy().copy()) for x in linear))


def _training_road(agent: Agent, rng: np.random.Generator) -> Any:
    """An environment of scalar reward w.r that draws a fresh context every episode and records its curve."""
    import gymnasium

    from studies.highway_log.sim import FastHighway

    class TrainingRoad(gymnasium.Wrapper):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(FastHighway())
            self.curve: list[tuple[float, ...]] = []
            self.steps = 0
            self.rewards: list[NDArray[np.float32]] = []

        def reset(self, **_: Any) -> Any:
            self.rewards = []
            options = Configuration.draw(rng).reset_options()
            return self.env.reset(seed=int(rng.integers(2**31)), options=options)

        def step(self, action: Any) -> Any:
            observation, reward, crashed, out_of_time, info = self.env.step(action)
            self.steps += 1
            self.rewards.append(reward)
            if crashed or out_of_time:
                self.curve.append(_episode_point(self.steps, self.rewards, agent, crashed=crashed))
            return observation, float(np.dot(agent.weights, reward)), crashed, out_of_time, info

    return TrainingRoad()


def _episode_point(step: int, rewards: list[NDArray[np.float32]], agent: Agent, *, crashed: bool) -> tuple[float, ...]:
    """One point of LEARNING_CURVE; a crash beside the road has no penalty, so the reward does not tell it."""
    speed, lane, collision = np.array(rewards, dtype=np.float64).mean(axis=0).tolist()
    reward = len(rewards) * float(np.dot(agent.weights, (speed, lane, collision)))
    return step, reward, speed, lane, float(crashed), len(rewards)
