"""`read_votes`: battles between two agents, from any table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from nasheval.arrays import Bools, Floats, Ints
from nasheval.choices import Grades
from nasheval.errors import Argument, InputError, ReadError
from nasheval.feedback.design import DesignName
from nasheval.feedback.log import Feedback
from nasheval.feedback.readers.answer_style import AnyStyle, Style, style_of
from nasheval.feedback.readers.arena import ARENA_55K, PLAIN, TAGS, VoteSchema, boolean_tags, detect_schema
from nasheval.feedback.readers.covariates import COMPARED, VERDICT, Covariates
from nasheval.feedback.readers.guessing import not_recognised
from nasheval.feedback.readers.labels import (
    DROP,
    FIRST,
    SECOND,
    TIE,
    Outcomes,
    duel_records,
    leave_out_dropped,
    read_labels,
    read_one_hot,
    read_ranks,
)
from nasheval.feedback.readers.parsing import agents_in, names_in, refuse_no_agent, to_numbers
from nasheval.feedback.readers.row_checks import (
    OnError,
    RowChecks,
    listed,
    nearest,
    several,
    shown_values,
)
from nasheval.feedback.readers.sources import Source, open_source


def read_votes(
    source: Any,
    *,
    context: Sequence[str] | str | None = None,
    text: str | Sequence[str] | None = "auto",
    context_id: str | None = None,
    categorical: Sequence[str] | str | None = None,
    model_a: str | None = None,
    model_b: str | None = None,
    winner: str | None = None,
    labels: Mapping[Any, str] | None = None,
    rank_a: str | None = None,
    rank_b: str | None = None,
    voter: str | None = None,
    time: str | None = None,
    propensity: str | None = None,
    weight: str | None = None,
    grade: str | None = None,
    grades: Grades = "keep",
    agents: Sequence[str] | None = None,
    join: Any = None,
    style: AnyStyle = "auto",
    average_repeats: bool = False,
    design: DesignName | None = None,
    on_error: OnError = "raise",
) -> Feedback:
    """Read pairwise votes.

    The four LMArena releases, model_a/model_b/winner and left/right/winner tables are recognised; any column can be
    named. Rows become one context by `context_id`, or by the same prompt with the same covariates; else each row is
    a context of its own. The design is told from all sound rows, also those that labels= drops or agents= leaves out:
    they were asked as well. Under inclusion their contexts stay, with or without a record; under draws a context
    without a record tells nothing, and is left out.

    Args:
        source: a path (.parquet, .csv, .jsonl; a folder; a glob), a pandas, polars or pyarrow table, or a Hugging Face
            dataset.
        context: context columns; None: those that are usual for the kind of file. Leaves of the nested category_tag
            go by their own names ("math", "if"). Columns of the agents and of the verdict are refused.
        text: the prompt column; "auto": the first user turn in an Arena file, else none; None: no text.
        context_id: the column whose equal values are one context.
        categorical: context columns that hold categories, whatever they look like: codes, or numbers with a few words.
            In a CSV file, which has no types, a column of which 90% or more are numbers is else taken for numbers, and
            what is none of them for an error.
        model_a, model_b, winner: columns of the two agents as shown, and of the label.
        labels: what each label means: {"1": "a", "2": "b", "3": "tie", "-1": "drop"}, or "both_bad"; "a:0.5" and
            "b:0.5" stand for a verdict of half the strength.
        rank_a, rank_b: columns of the ranks of the two agents, 1 is best, in place of a label.
        voter, time, propensity, weight: columns, where there are any.
        grade: column of how strong each verdict is, above 0 and at most 1; a verdict is then a number in [-1, 1], its
            grade for the winner.
        grades: "keep", or "sign" to count all verdicts alike.
        agents: keep only the votes among these, as `Feedback.keep_agents` does.
        join: (table, key) or (table, key here, key there): context and text columns may come from that table.
        style: what answers look like, for NashEval(adjust="style"): names of numbers of which the file has two columns,
            "length" for length_a and length_b (or _1 and _2), or {name: (column, column)}; "auto": length, headers,
            lists and bold, from conv_metadata or from the answers where the file has them; None: none.
        average_repeats: records of the same pair in one context share one unit of weight, as when both presentation
            orders were judged.
        design: "inclusion" or "draws"; None: detected.
        on_error: "raise", or "skip" to leave bad rows out and print how many.
    """
    opened = open_source(source)
    styled = style_of(opened, style)
    opened = styled.added(opened) if styled else opened
    graded = [grade] if grade else []
    schema = _schema(opened, model_a, model_b, _verdict(winner, rank_a, rank_b), graded)
    beside = Covariates(
        opened,
        context=_usual_context(schema, opened) if context is None else context,
        text=("prompt" if schema.prompt else None) if text == "auto" else text,
        join=join,
        categorical=categorical,
        named=schema.names,
        refused=dict.fromkeys([*schema.verdict, *graded], VERDICT)
        | dict.fromkeys([schema.first, schema.second], COMPARED),
        roles=_usual_roles(schema, opened, voter, time)
        | {"context_id": context_id, "propensity": propensity, "weight": weight},
        prompt=schema.prompt,
        json_text=schema.name == ARENA_55K.name,
    )
    table, checks = beside.read([*schema.verdict, *graded, *(styled.made if styled else ())], on_error)
    names, chosen, first, second = _sides(checks, table, schema, agents)
    code, meanings, strength = _outcomes(checks, table, schema, names, first, second, labels)
    strength = _strength(checks, table, code, strength, grade, grades)
    contexts, columns = beside.contexts(checks, table), beside.record_columns(checks, table)
    keep = checks.settle()
    if not keep.any():
        raise checks.nothing_left(of="row", accepted="at least one vote between two agents")
    sound, voters = ~checks.faulty, columns.pop("voters", None)
    contexts, context_of = beside.group(table, contexts, np.flatnonzero(sound))
    rows = {"first": first, "second": second, "outcome": np.where(code == DROP, np.int8(TIE), code), **columns}
    rows |= {"grade": strength, "style": styled.of(table) if styled else None}
    rows = {name: values if sound.all() else values[sound] for name, values in rows.items() if values is not None}
    records = duel_records(**rows, n_agents=len(names))
    del table, first, second, rows, columns  # hundreds of megabytes of a large log, which holds them in its own form
    whole = beside.log(  # of all sound rows, wanted or not; those without a verdict tie until they are left out
        checks,
        contexts,
        context_of,
        records,
        agents=names,
        kind=opened.make or schema.name,
        used=int(keep.sum()),
        roles=schema.roles | _measured(strength, grade, styled),
        labels=meanings,
        voters=voters,
        design=design,
        style=styled.names if styled else (),
    )
    said = (code[sound] != DROP)[np.argsort(context_of, kind="stable")]
    return _answered(whole, said, average_repeats, chosen if agents is not None else None)


def _answered(whole: Feedback, said: Bools, average_repeats: bool, chosen: list[str] | None) -> Feedback:
    """Return the records among chosen agents that have a verdict, under the design of all that were asked."""
    log = whole if said.all() else whole.keep_records(said)
    if average_repeats:
        log = replace(log.average_repeats(), given_design=whole.average_repeats().how_designed)
    return (log if chosen is None else log.keep_agents(chosen)).trimmed()


# -- which column is what ---------------------------------------------------------------------------------------------


def _verdict(winner: str | None, rank_a: str | None, rank_b: str | None) -> str | tuple[str, ...] | None:
    """Return the column of the label, or those of the two ranks."""
    if bool(rank_a) != bool(rank_b) or (rank_a and winner):
        ranks = (Argument("rank_a"), " and ", Argument("rank_b"))
        raise InputError("Name who won in one way: with ", Argument("winner"), ", or with both ", *ranks, ".")
    return (rank_a, rank_b) if rank_a and rank_b else winner


def _schema(
    source: Source, model_a: str | None, model_b: str | None, winner: str | tuple[str, ...] | None, graded: list[str]
) -> VoteSchema:
    source.need("grade", *graded)
    detected = detect_schema(source.names)
    if model_a or model_b or winner:
        base = detected or replace(PLAIN, name="votes, columns as given")
        schema = replace(base, first=model_a or base.first, second=model_b or base.second, winner=winner or base.winner)
        source.need("model_a", schema.first)
        source.need("model_b", schema.second)
        roles = ("rank_a", "rank_b") if len(schema.verdict) == 4 else ("winner",) * 3
        for role, column in zip(roles, schema.verdict[2:], strict=False):
            source.need(role, column)
        return schema
    if detected is None:
        raise not_recognised(source)
    return detected


def _usual_roles(schema: VoteSchema, source: Source, voter: str | None, time: str | None) -> dict[str, str | None]:
    usual = {name: name if name in source.names else None for name in (schema.voter, schema.time)}
    return {"voter": voter or usual[schema.voter], "time": time or usual[schema.time]}


def _measured(strength: Floats | None, grade: str | None, styled: Style | None) -> dict[str, str]:
    """Return where grades and style come from, where there are any."""
    graded = {} if strength is None else {"grade": grade or "by label"}
    return graded | ({} if styled is None else {"style": ", ".join(styled.columns)})


def _usual_context(schema: VoteSchema, source: Source) -> list[str]:
    usual = [name for name in schema.context if name in source.names and name != TAGS]
    return usual + (
        boolean_tags(source.schema.field(TAGS).type) if TAGS in schema.context and TAGS in source.names else []
    )


# -- who met whom, and who won ----------------------------------------------------------------------------------------


def _sides(
    checks: RowChecks, table: pa.Table, schema: VoteSchema, agents: Sequence[str] | None
) -> tuple[list[str], list[str], Ints, Ints]:
    """Return all names, the chosen ones, and (n,) the places of both agents of each row in all names, -1 for none."""
    sides = [names_in(table, name, checks.source) for name in (schema.first, schema.second)]
    names, [first, second] = agents_in(sides)
    chosen = names if agents is None else _chosen(agents, names, checks.source)
    if len(names) < 2:
        raise ReadError(
            f"fewer than two agents are compared ({listed(names)})",
            source=checks.source,
            accepted="two or more different agents",
            fix=f"check the columns {checks.named(schema.first)!r} and {checks.named(schema.second)!r}",
        )
    both, wanted = (first >= 0) & (second >= 0), np.isin(names, chosen)
    checks.leave_out(both & ~(wanted[first] & wanted[second]), "an agent not in agents=")
    refuse_no_agent(checks, first, schema.first)
    refuse_no_agent(checks, second, schema.second)
    same = both & (first == second)
    checks.reject(
        same,
        f"{shown_values(np.array(names, object)[first[same]])} is compared with itself",
        column=schema.second,
        accepted="two different agents per row",
        fix="correct the name",
    )
    return names, chosen, first, second


def _chosen(agents: Sequence[str], seen: list[str], source: str) -> list[str]:
    names = list(dict.fromkeys(several(agents, "agents")))
    for name in names:
        if name not in seen:
            hint = f"did you mean {near[0]!r}? C" if (near := nearest(name, seen)) else "c"
            raise ReadError(
                (f"no vote names the agent {name!r} of ", Argument("agents")),
                source=source,
                accepted=f"its agents, {listed(seen)}",
                fix=(f"{hint}orrect the name, or leave it out of ", Argument("agents")),
            )
    if len(names) < 2:
        raise InputError(Argument("agents"), f" names {listed(names)}; a comparison needs two or more different ones.")
    return names


def _strength(
    checks: RowChecks, table: pa.Table, code: Ints, by_label: Floats | None, name: str | None, grades: str
) -> Floats | None:
    """Return (n,) how strong each verdict is, by its label or by a column; None where all count alike."""
    if grades not in get_args(Grades):
        raise InputError(Argument("grades", grades), ": accepted are 'keep' and 'sign' (all verdicts count alike).")
    strength = by_label
    if name:
        values, is_number = to_numbers(table[name])
        decided = (code == FIRST) | (code == SECOND)
        bad = decided & ~(is_number & (values > 0) & (values <= 1))
        accepted = "a number above 0 and at most 1 where somebody won"
        checks.reject_values(bad, table[name], " as grade", name=name, accepted=accepted, fix="correct the grade")
        strength = np.where(decided & ~bad, values, 1.0)
    return None if strength is None or grades == "sign" or (strength == 1).all() else strength


def _outcomes(
    checks: RowChecks,
    table: pa.Table,
    schema: VoteSchema,
    names: list[str],
    first: Ints,
    second: Ints,
    labels: Mapping[Any, str] | None,
) -> Outcomes:
    if isinstance(schema.winner, str):
        said = names_in(table, schema.winner, checks.source)
        outcomes = read_labels(checks, said, schema.winner, agents=names, first=first, second=second, labels=labels)
        leave_out_dropped(checks, said, outcomes[0])
        return outcomes
    if labels is not None and len(schema.winner) == 3:
        raise InputError(
            f"labels= needs one winner column; this file has three, {', '.join(schema.winner)}. Leave it out."
        )
    columns = [table[name] for name in schema.winner]
    if len(schema.winner) == 2:
        return read_ranks(checks, columns, (schema.winner[0], schema.winner[1]))
    return read_one_hot(checks, columns, (schema.winner[0], schema.winner[1], schema.winner[2]))
