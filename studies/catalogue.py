"""Everything that `python -m studies` runs, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from nasheval import InputError

if TYPE_CHECKING:
    from studies.harness.study import Study

# What each asks, in the order of the paper; its module in `paper` has the same name.
STUDIES = {
    "rq1": "equilibrium quality on the simulation: three kinds of feedback, one to five voters, all baselines",
    "ablation": "the same with networks instead of trees",
    "rho": "the same against the strength of the regulariser",
    "solver": "the learned policy against the exact solver, in quality and in time",
    "highway": "driving agents in traffic (MO-Highway), with reference payoffs",
    "routerbench": "language models on RouterBench prompts, with simulated judges",
    "oa": "chat models on real prompts, judged by GPT-4 on all pairs",
    "aggregation": "what a pooled equilibrium hides from single prompts",
    "cost": "what lotteries cost against how good they are, with measured costs and with list prices",
    "arena": "how equilibria differ between groups of human votes",
    "orthogonality": "error against injected nuisance error, and against the number of contexts",
}
# Their modules in `benchmarks` have the same names, with "_" for "-".
BENCHMARKS = {
    "quality": "payoff error, exploitability and CPU seconds of every form, and with nuisances made poor on purpose",
    "policies": "the learned policy against the exact one, at full size",
    "coverage": "whether intervals cover and cycles are true, in the paper's worlds and in arenas",
    "separations": "whether tie groups separate falsely, and decisions are true",
    "decisions": "which agent to ship, on every log at hand",
    "voters": "whether planted votes are found and honest voters are not named, and whether blocs of voters are found",
    "style": "whether payoffs at equal style are right, and their intervals cover",
    "evaluation": "whether held-out evaluation covers, and picks the better policy",
    "planning": "whether planned widths come true, and how many votes planned menus spare",
    "peeking": "how often a daily look promotes a policy that is no better, and what waiting costs",
    "update": "seconds and quality of an update with a new agent, against a full refit",
    "audit": "whether flips that an audit predicts are confirmed by a refit, and as small as by brute force",
    "sensitivity": "whether bounds under unmeasured selection hold where a hidden trait is at work",
    "nesting": "whether the held-out score of the correction is honest",
    "texts": "what text encoders are worth: prompts routed by NashEval and others, tasks seen and unseen",
    "stars": "every model compared with one reference only",
    "ballots": "rankings on hundreds of menus (WMT16)",
    "extremes": "few votes, and many agents",
    "world": "what the simulated world is like",
    "solver-speed": "the exact solver against other solvers",
    "ingest": "time and memory of reading ten million votes",
    "stream": "memory and speed of reading and predicting from Parquet, at any size",
    "arena-scale": "time and memory of fitting an arena release",
    "cluster": "whether a Ray cluster gives the same model, also when a node is lost, and what it costs",
    "serving": "whether a service is fast, loses no vote when it is killed, and learns from its votes",
    "gateway": "what the gateway adds to a chat completion, against calling the upstream directly",
    "device": "stages of a fit, and an accelerator against the processor",
    "bench": "one table of all that is measured in ratios, with other packages in the same run",
    "scale": "growth of time and memory with votes and agents, with limits",
    "ratios": "fit, leaderboard, answers and cold start against linear programs and the fit, with limits",
    "commands": "whether the command lines of docs/cli.md work on their data",
    "highway-log": "what is in the bundled MO-Highway log",
}
TOOLS = {
    "publish": "keep the results of full studies, and write docs/results.md",
    "build-highway": "build the MO-Highway log from the simulator: hours",
    "build-chat": "build the bundled chat log from the release of QLoRA",
}
_TOOL_MODULES = {
    "publish": "studies.publish",
    "build-highway": "studies.highway_log.build",
    "build-chat": "studies.chat_log",
}


def study(name: str) -> Study:
    """Return a study by its name."""
    if name not in STUDIES:
        raise InputError(f"There is no study {name!r}; accepted are {', '.join(STUDIES)}.")
    chosen: Study = import_module(f"studies.paper.{name}").STUDY
    return chosen


def program(name: str) -> Callable[[Sequence[str]], None]:
    """Return what a benchmark or a tool does with its words of the command line."""
    module = _TOOL_MODULES.get(name) or f"studies.benchmarks.{name.replace('-', '_')}"
    main: Callable[[Sequence[str]], None] = import_module(module).main
    return main
