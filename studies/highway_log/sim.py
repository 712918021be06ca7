"""The driving simulator: `mo-highway-fast-v0` with the same trajectories, bit for bit, many times faster.

The road of this environment is straight, along the x axis, and only the ego vehicle can crash into others. So
a position along a lane is x, a lane's neighbours are found by bisection in a list sorted once a frame, and far
pairs need no collision check. Every formula keeps the order of operations of the original, and every
transcendental function stays NumPy's, because others differ from it in the last bit.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from operator import attrgetter
from typing import Any

import numpy as np
from highway_env.envs.common.action import DiscreteMetaAction
from highway_env.envs.common.observation import KinematicObservation
from highway_env.road.lane import StraightLane
from highway_env.road.road import LaneIndex, Road, RoadNetwork
from highway_env.vehicle.behavior import IDMVehicle
from highway_env.vehicle.controller import MDPVehicle
from highway_env.vehicle.kinematics import Vehicle
from mo_gymnasium.envs.highway.highway import MOHighwayEnvFast

_PI = float(np.pi)
_GAP_SCALE = float(2 * np.sqrt(-IDMVehicle.COMFORT_ACC_MAX * IDMVehicle.COMFORT_ACC_MIN))
_by_x = attrgetter("x")


def _clip(value: float, low: float, high: float) -> float:
    return low if value < low else high if value > high else value


def _not_zero(value: float, eps: float = 1e-2) -> float:
    if abs(value) > eps:
        return value
    return eps if value >= 0 else -eps


def _wrap_to_pi(angle: float) -> float:
    return ((angle + _PI) % (2 * _PI)) - _PI


class StraightEastLane(StraightLane):  # type: ignore[misc]
    """A lane along the x axis, where local coordinates are a subtraction."""

    def __init__(self, lane: StraightLane) -> None:
        super().__init__(lane.start, lane.end, lane.width, lane.line_types, lane.forbidden, lane.speed_limit)
        self.x0, self.y0 = self.start.tolist()

    def local_coordinates(self, position: np.ndarray) -> tuple[float, float]:
        """The (longitudinal, lateral) coordinates of a position of shape (2,)."""
        x, y = position.tolist()
        return x - self.x0, y - self.y0


class StraightRoadNetwork(RoadNetwork):  # type: ignore[misc]
    """Parallel lanes along the x axis."""

    def __init__(self, lanes_count: int, *, speed_limit: float) -> None:
        super().__init__()
        plain = RoadNetwork.straight_road_network(lanes_count, speed_limit=speed_limit)
        self.lanes = [StraightEastLane(lane) for lane in plain.lanes_list()]
        self.indexes = [("0", "1", i) for i in range(lanes_count)]
        self.graph = {"0": {"1": self.lanes}}

    def get_closest_lane_index(self, position: np.ndarray, heading: float | None = None) -> LaneIndex:
        """The index of the lane closest to a position of shape (2,), the first one on a tie."""
        x, y = position.tolist()
        return self.closest(x, y, 0.0 if heading is None else float(heading))

    def closest(self, x: float, y: float, heading: float) -> LaneIndex:
        """The index of the lane closest to (x, y), the first one on a tie."""
        angle = 0.0 if heading == 0.0 else abs(_wrap_to_pi(heading))
        best, shortest = 0, np.inf
        for i, lane in enumerate(self.lanes):
            s = x - lane.x0
            distance = abs(y - lane.y0) + max(s - lane.length, 0) + max(0 - s, 0) + angle
            if distance < shortest:
                best, shortest = i, distance
        return self.indexes[best]


class SortedRoad(Road):  # type: ignore[misc]
    """A road that sorts each lane's vehicles once a frame."""

    _sorted: list[tuple[list[float], list[Any]]] | None = None

    def act(self) -> None:
        """Decide every vehicle's action; nothing moves meanwhile, so one sorting serves all of them."""
        self._sorted = self._sort()
        super().act()
        self._sorted = None

    def _sort(self) -> list[tuple[list[float], list[Any]]]:
        lanes: list[tuple[list[float], list[Any]]] = [([], []) for _ in self.network.lanes]
        for vehicle in sorted(self.vehicles, key=_by_x):  # stable: equal positions keep the order of the road
            own = vehicle.lane_index[2]
            offset = vehicle.y - self.network.lanes[own].y0
            # A vehicle counts on a lane up to 3 m from its centre, so only one near the edge is on two lanes.
            side = own + 1 if offset > 0.99 else own - 1 if offset < -0.99 else own
            for i in {own, side}:
                if 0 <= i < len(lanes) and self._on_lane(vehicle, self.network.lanes[i]):
                    lanes[i][0].append(vehicle.x)
                    lanes[i][1].append(vehicle)
        return lanes

    @staticmethod
    def _on_lane(vehicle: Any, lane: StraightEastLane) -> bool:
        on = abs(vehicle.y - lane.y0) <= lane.width / 2 + 1
        return bool(on and -lane.VEHICLE_LENGTH <= vehicle.x < lane.length + lane.VEHICLE_LENGTH)

    def neighbour_vehicles(self, vehicle: Any, lane_index: LaneIndex | None = None) -> tuple[Any, Any]:
        """The vehicles just before and just behind a vehicle on a lane, or None."""
        if self._sorted is None:
            return super().neighbour_vehicles(vehicle, lane_index)
        xs, vehicles = self._sorted[(lane_index or vehicle.lane_index)[2]]
        at = bisect_left(xs, vehicle.x)
        return self._front(xs, vehicles, at, vehicle), self._rear(xs, vehicles, at - 1)

    @staticmethod
    def _front(xs: list[float], vehicles: list[Any], at: int, vehicle: Any) -> Any:
        """The last of those that share the nearest position, as in the original's scan."""
        front = None
        for i in range(at, len(xs)):
            if vehicles[i] is vehicle:
                continue
            if front is not None and xs[i] != front.x:
                break
            front = vehicles[i]
        return front

    @staticmethod
    def _rear(xs: list[float], vehicles: list[Any], at: int) -> Any:
        """The first of those that share the nearest position, as in the original's scan."""
        while at > 0 and xs[at - 1] == xs[at]:
            at -= 1
        return vehicles[at] if at >= 0 else None

    def step(self, dt: float) -> None:
        """Move every vehicle and find the ego's collisions; it comes first and alone checks for them."""
        for vehicle in self.vehicles:
            vehicle.step(dt)
        ego = self.vehicles[0]
        for other in self.vehicles[1:]:
            reach = (ego.diagonal + other.diagonal) / 2 + abs(ego.speed) * dt + 1
            if abs(other.x - ego.x) <= reach:
                ego.handle_collisions(other, dt)


class _Driver:
    """What the ego and the traffic share: plain numbers x, y, cos and sin beside the original's arrays."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read_state()

    def _read_state(self: Any) -> None:
        self.x, self.y = self.position.tolist()
        self.heading = float(self.heading)
        self.cos, self.sin = float(np.cos(self.heading)), float(np.sin(self.heading))

    def follow_road(self: Any) -> None:
        """Switch to the next road at the end of this one, which no vehicle reaches in 30 s."""
        if self.x > self.lane.length - 10:
            super().follow_road()  # type: ignore[misc]

    def steering_control(self: Any, target_lane_index: LaneIndex) -> float:
        """The steering angle that leads to the centre of a lane."""
        lateral = self.y - self.road.network.lanes[target_lane_index[2]].y0
        if lateral == 0.0 and self.heading == 0.0:
            return 0.0
        speed = _not_zero(self.speed)
        command = float(np.arcsin(_clip(-self.KP_LATERAL * lateral / speed, -1, 1)))
        reference = _clip(command, -_PI / 4, _PI / 4)
        rate = self.KP_HEADING * _wrap_to_pi(reference - self.heading)
        slip = np.arcsin(_clip(self.LENGTH / 2 / speed * rate, -1, 1))
        angle = float(np.arctan(2 * np.tan(slip)))
        return _clip(angle, -self.MAX_STEERING_ANGLE, self.MAX_STEERING_ANGLE)

    def step(self: Any, dt: float) -> None:
        """Move by the bicycle model; crashed and speeding vehicles are left to the original."""
        if self.crashed or self.impact is not None or abs(self.speed) > self.MAX_SPEED:
            Vehicle.step(self, dt)
            self._read_state()
            return
        turning = self._move(float(self.action["steering"]), dt)
        self.speed += float(self.action["acceleration"]) * dt
        self.position[0], self.position[1] = self.x, self.y
        if turning:
            self.lane_index = self.road.network.closest(self.x, self.y, self.heading)
            self.lane = self.road.network.lanes[self.lane_index[2]]

    def _move(self: Any, steering: float, dt: float) -> bool:
        """Move, and say whether anything but x can have changed."""
        if steering == 0.0:
            self.x += self.speed * self.cos * dt
            self.y += self.speed * self.sin * dt
            return bool(self.sin != 0.0)
        beta = np.arctan(1 / 2 * np.tan(steering))
        self.x += self.speed * float(np.cos(self.heading + beta)) * dt
        self.y += self.speed * float(np.sin(self.heading + beta)) * dt
        self.heading += self.speed * float(np.sin(beta)) / (self.LENGTH / 2) * dt
        self.cos, self.sin = float(np.cos(self.heading)), float(np.sin(self.heading))
        return True


class Ego(_Driver, MDPVehicle):  # type: ignore[misc]
    """The vehicle under an agent's control."""


class Traffic(_Driver, IDMVehicle):  # type: ignore[misc]
    """A vehicle of the traffic: IDM along the lane, MOBIL between lanes."""

    _own_free: float | None = None

    def act(self, action: dict[str, float] | str | None = None) -> None:
        """Choose the steering and the acceleration of this frame."""
        if self.crashed:
            return
        self._own_free = None
        self.follow_road()
        if self.enable_lane_change:
            self.change_lane_policy()
        steering = self.steering_control(self.target_lane_index)
        acceleration = self._behind_front(self.lane_index)
        if self.lane_index != self.target_lane_index:
            acceleration = min(acceleration, self._behind_front(self.target_lane_index))
        self.action = {"steering": steering, "acceleration": _clip(acceleration, -self.ACC_MAX, self.ACC_MAX)}

    def _behind_front(self, lane_index: LaneIndex) -> float:
        return self.acceleration(self, self.road.neighbour_vehicles(self, lane_index)[0])

    def step(self, dt: float) -> None:
        """Move, and count the time since the last decision to change lane."""
        self.timer += dt
        _Driver.step(self, dt)

    def acceleration(self, ego_vehicle: Any, front_vehicle: Any = None, rear_vehicle: Any = None) -> float:
        """The IDM acceleration of a vehicle behind another, both possibly None."""
        if ego_vehicle is None:
            return 0
        free = self._free_acceleration(ego_vehicle)
        if front_vehicle is None:
            return free
        ratio = self.desired_gap(ego_vehicle, front_vehicle) / _not_zero(front_vehicle.x - ego_vehicle.x)
        return free - float(self.COMFORT_ACC_MAX) * (ratio * ratio)

    def _free_acceleration(self, vehicle: Any) -> float:
        own: float | None = self._own_free
        if vehicle is self and own is not None:
            return own
        target = _clip(float(vehicle.target_speed), 0, vehicle.lane.speed_limit)
        share = max(vehicle.speed, 0) / abs(_not_zero(target))
        free = float(self.COMFORT_ACC_MAX) * (1 - float(np.power(share, self.DELTA)))
        if vehicle is self:
            self._own_free = free
        return free

    def desired_gap(self, ego_vehicle: Any, front_vehicle: Any, projected: bool = True) -> float:
        """The distance a vehicle wants to the one before it."""
        speed = ego_vehicle.speed
        closing = speed * ego_vehicle.cos - front_vehicle.speed * front_vehicle.cos
        if ego_vehicle.sin != 0.0:
            across = speed * ego_vehicle.sin - front_vehicle.speed * front_vehicle.sin
            # NumPy's dot may fuse the product and the sum, which plain numbers would not.
            closing = float(np.dot(np.array([closing, across]), np.array([ego_vehicle.cos, ego_vehicle.sin])))
        return float(self.DISTANCE_WANTED + speed * self.TIME_WANTED + speed * closing / _GAP_SCALE)

    def mobil(self, lane_index: LaneIndex) -> bool:
        """Whether to change to a lane: the traffic has no route and no politeness, so only its own gain counts."""
        preceding, following = self.road.neighbour_vehicles(self, lane_index)
        if self.acceleration(following, self) < -self.LANE_CHANGE_MAX_BRAKING_IMPOSED:
            return False
        old_preceding = self.road.neighbour_vehicles(self)[0]
        gain = self.acceleration(self, preceding) - self.acceleration(self, old_preceding)
        return bool(gain >= self.LANE_CHANGE_MIN_ACC_GAIN)


class _EgoActions(DiscreteMetaAction):  # type: ignore[misc]
    @property
    def vehicle_class(self) -> Any:
        return functools.partial(Ego, target_speeds=self.target_speeds)


class _NearestVehicles(KinematicObservation):  # type: ignore[misc]
    """The ego and the four nearest vehicles in sight, (5, 5) of presence, x, y, vx, vy, without a data frame."""

    def observe(self) -> np.ndarray:
        ego = self.env.vehicle
        rows = np.array([self._state(ego)] + [self._state(v) for v in self._near(ego)])
        rows[1:] -= rows[0]
        reach = np.array(
            [5.0 * Vehicle.MAX_SPEED, 4.0 * len(self.env.road.network.lanes)] + [2 * Vehicle.MAX_SPEED] * 2
        )
        observed = np.zeros((self.vehicles_count, 5), dtype=np.float32)
        observed[: len(rows), 0] = 1
        observed[: len(rows), 1:] = np.clip(-1 + (rows + reach) * 2 / (2 * reach), -1, 1)
        return observed

    @staticmethod
    def _state(vehicle: Any) -> tuple[float, float, float, float]:
        return vehicle.x, vehicle.y, vehicle.speed * vehicle.cos, vehicle.speed * vehicle.sin

    def _near(self, ego: Any) -> list[Any]:
        distance = self.env.PERCEPTION_DISTANCE
        ahead = [v for v in self.env.road.vehicles[1:] if -2 * ego.LENGTH < v.x - ego.x < distance]
        ahead.sort(key=lambda v: abs(v.x - ego.x))
        seen = (v for v in ahead if np.linalg.norm(v.position - ego.position) < distance)
        return [v for v, _ in zip(seen, range(self.vehicles_count - 1), strict=False)]


class FastHighway(MOHighwayEnvFast):  # type: ignore[misc]
    """`mo-highway-fast-v0`, faster."""

    action_space: Any

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """The original's settings with this module's traffic."""
        return {**super().default_config(), "other_vehicles_type": f"{__name__}.{Traffic.__name__}"}

    def define_spaces(self) -> None:
        """Observe and act through this module's classes; the spaces themselves never change."""
        self.observation_type, self.action_type = _NearestVehicles(self), _EgoActions(self)
        if self.action_space is None:
            self.observation_space, self.action_space = self.observation_type.space(), self.action_type.space()

    def _create_road(self) -> None:
        network = StraightRoadNetwork(self.config["lanes_count"], speed_limit=30)
        self.road = SortedRoad(network=network, np_random=self.np_random)
