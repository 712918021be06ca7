"""The same votes out of every container give the same log."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from nasheval.errors import InputError, ReadError
from nasheval.feedback.readers.sources import open_source
from nasheval.feedback.readers.votes import read_votes
from tests.feedback.oracle import equal_logs


def rows_of(votes):
    return [dict(zip(votes, row, strict=True)) for row in zip(*votes.values(), strict=True)]


def write_csv(votes, path, delimiter=","):
    options = pa_csv.WriteOptions(delimiter=delimiter)
    pa_csv.write_csv(pa.table(votes), path, write_options=options)
    return str(path)


def csv_gz(votes, folder):
    write_csv(votes, folder / "votes.csv")
    (folder / "votes.csv.gz").write_bytes(gzip.compress((folder / "votes.csv").read_bytes()))
    return "votes.csv.gz"


def csv_with_bom_and_crlf(votes, folder):
    write_csv(votes, folder / "plain.csv")
    text = (
        (folder / "plain.csv")
        .read_text(encoding="utf-8")
        .replace("é\n", "é\0")
        .replace("\n", "\r\n")
        .replace("\0", "\n")
    )
    (folder / "excel.csv").write_text("\ufeff" + text, encoding="utf-8", newline="")
    return "excel.csv"


def csv_after_blank_lines(votes, folder):
    write_csv(votes, folder / "plain.csv")
    (folder / "late.csv").write_bytes(b"\n\n" + (folder / "plain.csv").read_bytes())
    return "late.csv"


def parquet(votes, folder, table=None, name="votes.parquet", **options):
    pq.write_table(pa.table(votes) if table is None else table, folder / name, **options)
    return name


TEXT = ("model_a", "model_b", "winner", "language", "who", "prompt")


def dictionary_parquet(votes, folder):
    arrays = {name: pa.array(values) for name, values in votes.items()}
    return parquet(votes, folder, pa.table(arrays | {name: arrays[name].dictionary_encode() for name in TEXT}))


def large_string_parquet(votes, folder):
    table = pa.table(votes)
    wide = [pa.field(f.name, pa.large_string() if pa.types.is_string(f.type) else f.type) for f in table.schema]
    return parquet(votes, folder, table.cast(pa.schema(wide)))


def parquet_folder(votes, folder):
    (folder / "data" / "more").mkdir(parents=True)
    table = pa.table(votes)
    pq.write_table(table[:2], folder / "data" / "0.parquet")
    pq.write_table(table[2:3], folder / "data" / "1.parquet")
    pq.write_table(table[3:], folder / "data" / "more" / "2.parquet")
    (folder / "data" / "_SUCCESS").touch()
    (folder / "data" / "notes.txt").write_text("no data")
    (folder / "data" / "._0.parquet").write_bytes(b"left by a file manager")
    return "data"


def parquet_glob(votes, folder):
    parquet_folder(votes, folder)
    pq.write_table(pa.table(votes)[3:], folder / "data" / "2.parquet")
    return "data/*.parquet"


def csv_glob(votes, folder):
    for part in range(3):
        write_csv({name: values[2 * part : 2 * part + 2] for name, values in votes.items()}, folder / f"part{part}.csv")
    return "part*.csv"


def jsonl(votes, folder, name="votes.jsonl"):
    text = "\n".join(json.dumps(row) for row in rows_of(votes))
    (folder / name).write_text(text + "\n\n", encoding="utf-8")
    return name


def jsonl_gz(votes, folder):
    (folder / "votes.jsonl.gz").write_bytes(gzip.compress((folder / jsonl(votes, folder)).read_bytes()))
    return "votes.jsonl.gz"


def json_list(votes, folder):
    (folder / "votes.json").write_text(json.dumps(rows_of(votes), indent=2), encoding="utf-8")
    return "votes.json"


def feather_file(votes, folder):
    feather.write_feather(pa.table(votes), folder / "votes.feather")
    return "votes.feather"


def pandas_odd_index(votes, folder):
    return pd.DataFrame(votes, index=pd.Index([9, 9, 2, -1, 0, 3], name="model_a_index")).astype({"turns": "Int64"})


def pandas_objects(votes, folder):
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in votes.items()})


def pandas_categories(votes, folder):
    frame = pd.DataFrame(votes).astype({"turns": "Int64"})
    return frame.astype(dict.fromkeys(TEXT, "category"))


def polars_categories(votes, folder):
    return pl.DataFrame(votes).with_columns(pl.col(TEXT).cast(pl.Categorical))


def arrow_unsigned_dictionaries(votes, folder):
    kinds = {name: pa.dictionary(pa.uint8(), pa.string()) for name in TEXT}
    return pa.table({name: pa.array(v).cast(kinds[name]) if name in kinds else v for name, v in votes.items()})


def arrow_repeating_dictionary(votes, folder):
    """A dictionary may list a value twice; both entries are the same agent, label or prompt."""
    table = {name: pa.array(values) for name, values in votes.items()}
    for name in ("model_a", "winner", "prompt"):
        table[name] = pa.DictionaryArray.from_arrays(pa.array(range(6), pa.int32()), table[name])
    return pa.table(table)


def arrow_string_views(votes, folder):
    table = pa.table(votes)
    views = [pa.field(f.name, pa.string_view() if pa.types.is_string(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(views))


def hugging_face(votes, folder):
    import datasets

    return datasets.Dataset.from_dict(votes)


def hugging_face_with_indices(votes, folder):
    import datasets

    order = [5, 3, 1, 0, 2, 4]
    mixed = datasets.Dataset.from_dict({name: [values[i] for i in order] for name, values in votes.items()})
    return mixed.select(np.argsort(order))


CONTAINERS = {
    "csv": lambda votes, folder: write_csv(votes, folder / "votes.csv"),
    "upper-case ending": lambda votes, folder: write_csv(votes, folder / "VOTES.CSV"),
    "tsv": lambda votes, folder: write_csv(votes, folder / "votes.tsv", "\t"),
    "csv.gz": csv_gz,
    "csv from Excel": csv_with_bom_and_crlf,
    "csv after blank lines": csv_after_blank_lines,
    "csv glob": csv_glob,
    "parquet": parquet,
    "parquet row groups": lambda votes, folder: parquet(votes, folder, row_group_size=1),
    "parquet dictionaries": dictionary_parquet,
    "parquet large strings": large_string_parquet,
    "parquet folder": parquet_folder,
    "parquet glob": parquet_glob,
    "jsonl": jsonl,
    "ndjson": lambda votes, folder: jsonl(votes, folder, "votes.ndjson"),
    "jsonl.gz": jsonl_gz,
    "json list": json_list,
    "feather": feather_file,
    "path object": lambda votes, folder: folder / parquet(votes, folder),
    "pyarrow": lambda votes, folder: pa.table(votes),
    "pyarrow chunks": lambda votes, folder: pa.concat_tables([pa.table(votes)[:1], pa.table(votes)[1:]]),
    "pyarrow batch": lambda votes, folder: pa.RecordBatch.from_pydict(votes),
    "pyarrow unsigned dictionaries": arrow_unsigned_dictionaries,
    "pyarrow repeating dictionary": arrow_repeating_dictionary,
    "pyarrow string views": arrow_string_views,
    "pandas": lambda votes, folder: pd.DataFrame(votes).astype({"turns": "Int64"}),
    "pandas odd index": pandas_odd_index,
    "pandas objects": pandas_objects,
    "pandas categories": pandas_categories,
    "polars": lambda votes, folder: pl.DataFrame(votes),
    "polars categories": polars_categories,
    "list of dicts": lambda votes, folder: rows_of(votes),
    "hugging face": hugging_face,
    "hugging face with indices": hugging_face_with_indices,
}  # fmt: skip


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_every_container_gives_the_same_log(make, votes, columns, here):
    plain = read_votes(pa.table(votes), **columns)
    log = read_votes(make(votes, here), **columns)
    assert equal_logs(log, plain)
    assert (log.n_records, log.n_contexts, log.report.rows) == (6, 4, 6)


def test_the_reference_log_is_what_the_votes_say(votes, columns):
    """The containers above agree with this one, and this one agrees with the list in conftest."""
    log = read_votes(pa.table(votes), **columns)
    assert log.agents == ("x", "y", "z")
    assert log.context_of.tolist() == [0, 0, 0, 1, 2, 3]
    assert log.contexts["prompt"].to_pylist() == ["hi, there", 'hé\n"quoted"', None, "last"]
    assert log.contexts["language"].to_pylist() == ["en", "fr", "de", None]
    assert log.contexts["turns"].to_pylist() == [1, 2, 4, None]
    assert log.records.time.tolist() == [1.5, 3.25, 6.0, 2.0, 4.0, 5.0]
    assert log.records.propensity.tolist() == [0.5, 1.0, 0.125, 0.25, 0.5, 0.5]
    assert log.records.weight.tolist() == [1.0, 0.5, 1.0, 2.0, 1.0, 1.0]
    assert [None if v < 0 else log.voters[v].as_py() for v in log.records.voter] == ["u1", None, "u2", "u2", "u1", "u3"]
    assert log.records.agent.reshape(-1, 2).tolist() == [[0, 1], [0, 2], [0, 2], [1, 2], [0, 1], [0, 1]]
    assert log.records.block.reshape(-1, 2).tolist() == [[0, 1], [0, 0], [0, 1], [1, 0], [0, 0], [0, 1]]
    assert log.records.shown.reshape(-1, 2).tolist() == [[0, 1], [1, 0], [0, 1], [0, 1], [0, 1], [1, 0]]


def test_a_shuffled_hugging_face_dataset_keeps_its_rows_together(votes, columns):
    import datasets

    data = datasets.Dataset.from_dict(votes).shuffle(seed=3)
    assert data._indices is not None
    shuffled = read_votes(data, **columns)
    assert equal_logs(shuffled, read_votes(pa.Table.from_pylist(data.to_list()), **columns))


def test_only_the_columns_asked_for_are_read(votes, here):
    pq.write_table(pa.table(votes), "votes.parquet")
    read, _ = open_source("votes.parquet").read(["winner", "model_a"])
    assert read.column_names == ["winner", "model_a"]


def test_agent_names_come_out_of_parquet_as_a_dictionary(votes, here):
    pq.write_table(pa.table(votes), "votes.parquet")
    read, _ = open_source("votes.parquet").read(["model_a", "e"], text=["model_a", "e"])
    assert pa.types.is_dictionary(read["model_a"].type)
    assert pa.types.is_float64(read["e"].type)


def test_a_column_whose_name_has_a_dot_is_read_as_it_is(here):
    pq.write_table(pa.table({"gpt-3.5": [1.0], "gpt-3": [2.0], "a": [{"b": 3.0}]}), "scores.parquet")
    assert open_source("scores.parquet").read(["gpt-3.5"])[0].to_pylist() == [{"gpt-3.5": 1.0}]


def test_names_that_look_like_numbers_stay_text_in_csv(here):
    (here / "votes.csv").write_text("model_a,model_b,winner\n007,7,model_a\n1e3,007,model_b\n")
    assert read_votes("votes.csv").agents == ("007", "1e3", "7")


def test_an_agent_called_na_or_null_is_an_agent_in_csv(here):
    (here / "votes.csv").write_text("model_a,model_b,winner\nNA,null,model_a\n")
    assert read_votes("votes.csv").agents == ("NA", "null")


def test_nothing_and_na_are_missing_numbers_in_csv(here):
    (here / "votes.csv").write_text("model_a,model_b,winner,n\nx,y,tie,1.5\nx,y,tie,\nx,y,tie,NA\n")
    assert read_votes("votes.csv", context=["n"]).contexts["n"].to_pylist() == [1.5, None, None]


def test_files_whose_columns_are_in_another_order_fit_together(votes, columns, here):
    table = pa.table(votes)
    pq.write_table(table[:3], "0.parquet")
    pq.write_table(table[3:].select(table.column_names[::-1]), "1.parquet")
    assert equal_logs(read_votes("*.parquet", **columns), read_votes(table, **columns))


def test_a_column_that_is_empty_in_one_file_takes_its_type_from_the_other(here):
    (here / "0.csv").write_text("model_a,model_b,winner,n\nx,y,tie,\n")
    (here / "1.csv").write_text("model_a,model_b,winner,n\nx,y,tie,2.5\n")
    assert read_votes("?.csv", context=["n"]).contexts["n"].to_pylist() == [None, 2.5]


def test_a_path_with_brackets_that_exists_is_no_glob(votes, here):
    pq.write_table(pa.table(votes), "votes[1].parquet")
    assert read_votes("votes[1].parquet").n_records == 6


def test_the_source_is_named_in_the_report(votes, here):
    pq.write_table(pa.table(votes), "votes.parquet")
    assert read_votes("votes.parquet").report.source == "votes.parquet"
    assert read_votes(pa.table(votes)).report.source == "the table"


def test_a_streamed_dataset_is_refused():
    import datasets

    data = datasets.Dataset.from_dict({"model_a": ["x"]}).to_iterable_dataset()
    with pytest.raises(InputError, match="is a stream, which has no length; load it without streaming=True"):
        read_votes(data)


def test_a_damaged_string_column_is_named(here):
    broken = pa.array([b"x", b"\xff"]).view(pa.string())
    pq.write_table(pa.table({"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": broken}), "votes.parquet")
    with pytest.raises(ReadError, match=r"votes.parquet, column 'winner': this column is damaged .*UTF8"):
        read_votes("votes.parquet")


@pytest.mark.parametrize("name", ["votes.parquet", "votes.feather"])
@pytest.mark.parametrize("column", [["q"], [{"zzzz": 1}], [[{"zzzz": 1}]]])
def test_column_names_that_are_not_utf8_are_refused(here, name, column):
    """Python cannot even list them."""
    odd = "zzzz" if column == ["q"] else "odd"
    table = pa.table({"model_a": ["x"], "model_b": ["y"], "winner": ["tie"], odd: column})
    if name == "votes.parquet":
        pq.write_table(table, name, store_schema=False, compression="none")
    else:
        feather.write_feather(table, name, compression="uncompressed")
    (here / name).write_bytes((here / name).read_bytes().replace(b"zzzz", b"\x80zzz"))
    with pytest.raises(ReadError, match=f"{name}: this is not a readable .* file .*can't decode byte 0x80"):
        read_votes(name)


def test_json_nested_deeper_than_the_parser_can_follow_is_refused(here):
    """Arrow's parser would crash the process at some twenty thousand levels."""
    deep = '{"a":' * 30_000 + "1" + "}" * 30_000
    (here / "deep.jsonl").write_text('{"a": 1}\n' + deep + "\n")
    with pytest.raises(ReadError, match=r"deep\.jsonl, row 2: the values are nested more than 500 levels deep"):
        read_votes("deep.jsonl")


def test_a_json_list_nested_too_deeply_is_refused(here):
    (here / "deep.json").write_text("[" * 600 + "]" * 600)
    with pytest.raises(ReadError, match=r"deep\.json: the JSON does not parse \(nested more than 500 levels deep\)"):
        read_votes("deep.json")


@pytest.mark.parametrize("name", ["votes.jsonl", "votes.json"])
def test_brackets_inside_text_are_not_taken_for_nesting(here, name):
    row = {"model_a": "x", "model_b": "y", "winner": "tie", "prompt": '[{"\n' * 2000}
    (here / name).write_text(json.dumps(row if name == "votes.jsonl" else [row]))
    assert read_votes(name, text="prompt").contexts["prompt"].to_pylist() == ['[{"\n' * 2000]


def test_a_list_with_a_key_that_is_no_text_is_called_a_list(here):
    (here / "votes.json").write_text('[{"\\ud800": 1}]')
    with pytest.raises(ReadError) as error:
        read_votes("votes.json")
    assert str(error.value).startswith(
        "votes.json: this is no list of objects (the list: a column name that is not valid Unicode. Rename it)."
    )
