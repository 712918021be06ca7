"""The shapes of requests and answers, from which the OpenAPI document is made."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

LARGEST = 1e30  # of a number: models compute in single precision, whose squares end not far above
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Value = str | bool | Whole | Number | Annotated[list[Number], Field(max_length=8192)] | None
Name = Annotated[str, Field(min_length=1, max_length=256)]
Text = Annotated[str, Field(max_length=200_000)]
Context = Annotated[
    dict[Annotated[str, Field(max_length=256)], Value],
    Field(max_length=1000, description="Context columns that the model knows; those left out are taken as missing."),
]
Agents = Annotated[list[Name], Field(min_length=1, max_length=1000)]
Reason = Literal["tie", "both_bad", "censored", "last", "skip"]


class Body(BaseModel):
    """What every request's body is: nothing but known fields, of the right kind."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class RouteRequest(Body):
    """What to choose an agent for; every field may be left out."""

    context: Context = {}
    prompt: Text | None = Field(None, description="Where the model was fitted with prompts.")
    agents: Agents | None = Field(None, description="Those that may be chosen; by default all.")
    budget: float | None = Field(None, ge=0, le=1e30, description="The most the lottery may cost in expectation.")
    cost_weight: float | None = Field(None, ge=0, le=1e30, description="Weight of costs scaled to [0, 1].")
    session: Name | None = Field(None, description="Requests of one session get one agent.")
    default: Name | None = Field(None, description="The agent to answer where the model is unsure.")


class CompareRequest(Body):
    """What to show a voter answers to."""

    context: Context = {}
    prompt: Text | None = None
    agents: Agents | None = Field(None, description="Those that may be shown; by default all.")
    size: int = Field(2, ge=2, le=1000, description="Agents in the menu.")
    answers: bool = Field(False, description="Ask the upstreams for answers, and show these by letters, without names.")


class FeedbackRequest(Body):
    """A vote, in one of the forms `blocks`, `winner`, `ranking`, `top`, `best` and `worst`, or `scores`."""

    decision_id: Annotated[str, Field(max_length=8192)] | None = Field(
        None, description="Of /v1/compare, whose menu was shown, or of /v1/route, for its context; else give `menu`."
    )
    menu: Agents | None = Field(None, description="Agents that were compared, where /v1/compare did not choose them.")
    context: Context | None = Field(None, description="In place of that of a decision.")
    prompt: Text | None = None
    blocks: Annotated[list[Agents], Field(max_length=1000)] | None = Field(
        None, description="An ordered partition of the menu, best block first."
    )
    zero: Reason | None = Field(
        None,
        description="What a shared block means: tie (the default), both_bad, censored (not asked) or last (ties, but "
        "the last block was left unranked); alone, the whole menu is one block. skip: no answer.",
    )
    winner: Name | None = Field(None, description='The best of the menu; of two also "tie" or "both_bad".')
    ranking: Agents | None = Field(None, description="The whole menu, best first, without ties.")
    top: Agents | None = Field(None, description="The chosen ones, in no order.")
    best: Name | None = Field(None, description="With `worst`.")
    worst: Name | None = None
    scores: Annotated[dict[Name, Number], Field(max_length=1000)] | None = Field(
        None, description="A score for each agent of the menu, higher is better."
    )
    voter: Name | None = Field(None, description="Who voted, in the caller's words.")
    key: Name | None = Field(None, description="Idempotency key: a vote under it is stored once.")


class ForgetRequest(Body):
    """What to delete: all that is stored of a vote's key, a voter, a session, a prompt or an API key's name."""

    key: Name | None = None
    voter: Name | None = None
    session: Name | None = None
    prompt: Text | None = None
    client: Name | None = None


class RouteAnswer(BaseModel):
    """The agent that was chosen, and how."""

    decision_id: str = Field(description="Names this decision in /v1/feedback.")
    agent: str
    lottery: dict[str, float] = Field(description="Share of each agent; those that are left out have none.")
    winners: list[str] = Field(description="Agents with more than 0.001 of the lottery.")
    propensity: float = Field(description="With which this agent was drawn; of a session, at its first request.")
    reason: str
    expected_cost: float | None = Field(description="Of the lottery, in the units of the model's costs.")
    declined: bool = Field(description="Whether the default was answered, the model being unsure.")
    model_version: str


class AnswerText(BaseModel):
    """An answer without a name."""

    label: str
    text: str


class CompareAnswer(BaseModel):
    """A menu to show, in this order; with `answers`, what its agents say in place of who they are."""

    decision_id: str
    menu: list[str] | None = Field(None, description="Left out with `answers`.")
    propensity: float | None = Field(None, description="Of this menu, in any order, in this context.")
    lottery: dict[str, float] | None = None
    answers: list[AnswerText] | None = None
    model_version: str


class FeedbackAnswer(BaseModel):
    """The vote is durable."""

    id: str
    duplicate: bool = Field(description="Whether it was there already, under this key.")
    agents: dict[str, str] | None = Field(None, description="After a vote on answers without names: whose they were.")


class ForgetAnswer(BaseModel):
    """How much was deleted."""

    votes: int
    decisions: int
    sessions: int


class ModelLine(BaseModel):
    """A version of the model."""

    version: str
    at: float
    origin: str
    votes_until: int
    note: str


class ServedLine(BaseModel):
    """A change of the version that serves."""

    version: str
    at: float
    reason: str


class ModelsAnswer(BaseModel):
    """The versions of the model, and which served when, the latest first."""

    serving: str
    loaded: str
    models: list[ModelLine]
    history: list[ServedLine]


class HealthAnswer(BaseModel):
    """The process runs."""

    status: Literal["ok"]


class ReadyAnswer(BaseModel):
    """It can answer; what it cannot do at the moment is listed."""

    status: Literal["ready"]
    model_version: str | None = None
    problems: list[str] = []


class ErrorBody(BaseModel):
    """What was wrong."""

    code: str
    message: str
    argument: str | None


class ErrorAnswer(BaseModel):
    """Every error has this shape."""

    error: ErrorBody
