"""`nasheval predict` from Parquet to Parquet: the same answers, in bounded memory, and again after an interruption."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import nasheval as ne
from nasheval.cli import app
from nasheval.cli.parts import Parts
from nasheval.errors import Argument
from nasheval.estimator import NashEval, load
from nasheval.policy import base

AGENTS = ("ada", "bert", "cleo", "dora")


def contexts(n, seed=1):
    rng = np.random.default_rng(seed)
    language = rng.choice(["de", "en", "pl"], n)
    return pa.table({"id": np.arange(n), "language": language, "length": rng.normal(size=n), "x": rng.random(n)})


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return a folder of three fitted models: of voters, learned, and among available agents."""
    folder, rng = tmp_path_factory.mktemp("models"), np.random.default_rng(0)
    first = rng.integers(0, 4, 400)
    second = (first + rng.integers(1, 4, 400)) % 4
    names, table = np.array(AGENTS), contexts(400, seed=0)
    votes = {"model_a": names[first], "model_b": names[second], "winner": rng.choice(["a", "b", "tie"], 400)}
    log = ne.read_votes(
        pa.table({**votes, **{name: table[name] for name in table.column_names}}), context=["language", "length", "x"]
    )
    quick = {"second_stage": "none", "folds": 2, "n_jobs": 1, "verbose": False, "device": "cpu"}
    ne.NashEval(**quick).fit(log).save(folder / "voters")
    among = {"outcome": "lightgbm", "availability": "language"}
    ne.NashEval(**quick, **among).fit(log).save(folder / "available")
    learned = ne.LearnedPolicy(augment=0, epochs=1)
    ne.NashEval(**quick, outcome="lightgbm", policy=learned).fit(log).save(folder / "learned")
    return folder


@pytest.fixture
def small_blocks(monkeypatch):
    """Predict 4,096 rows of a file at a time, and 1,024 games."""
    monkeypatch.setattr(base, "CELLS", 1 << 14)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(contexts(10_000), "new.parquet", row_group_size=1_000)
    return tmp_path / "new.parquet"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(*words):
    result = run(*words)
    assert result.exit_code == 1
    return result.exception.message(Argument.as_flag)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["voters", "learned", "available"])
def test_answers_are_those_of_one_piece_bit_for_bit(models, file, name):
    done = run("predict", models / name, file, "--keep", "id", "-o", "out.parquet")
    assert done.exit_code == 0, done.output
    found, table = pq.read_table("out.parquet"), contexts(10_000)
    assert pq.read_metadata("out.parquet").num_row_groups == 3
    assert found["id"].equals(table["id"])
    model = load(models / name)
    lotteries = model.predict_proba(table)
    assert np.array_equal(np.column_stack([found[agent] for agent in AGENTS]), lotteries)
    assert found["winner"].to_pylist() == model.predict(table)
    assert found.schema.metadata is None
    assert sorted(path.name for path in Path().iterdir()) == ["new.parquet", "out.parquet"]


@pytest.mark.parametrize("agents", [2, 3, 5, 10, 33, 50, 300, 2_000])
def test_a_block_is_whole_chunks(agents):
    assert base.block_of(agents) % base.chunk_of(agents) == 0
    assert base.block_of(agents) % (1 << 12) == 0  # of a learned policy
    assert base.chunk_of(agents) * agents**2 <= base.CELLS


@pytest.fixture
def predicted(monkeypatch):
    """Count the contexts that are predicted."""
    seen, plain = [], NashEval.predict_proba

    def counted(self, table, **options):
        seen.append(len(table))
        return plain(self, table, **options)

    monkeypatch.setattr(NashEval, "predict_proba", counted)
    return seen


@pytest.fixture
def interrupted(models, file, small_blocks, monkeypatch, predicted):
    """Interrupt a prediction in its second part of three."""
    with monkeypatch.context() as patch:
        plain = Parts.write

        def write(self, number, part):
            if number == 1:
                raise KeyboardInterrupt
            plain(self, number, part)

        patch.setattr(Parts, "write", write)
        result = run("predict", models / "learned", file, "-o", "out.parquet")
    assert result.exit_code == 130
    assert "4,096 of 10,000 lotteries are kept in out.parquet.parts" in result.stderr
    assert not Path("out.parquet").exists()
    predicted.clear()


@pytest.mark.usefixtures("interrupted")
def test_what_was_finished_is_not_done_again(models, file, predicted, monkeypatch):
    rows, plain = [], pq.ParquetFile.iter_batches

    def counted(self, *args, **options):
        for batch in plain(self, *args, **options):
            rows.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    again = run("predict", models / "learned", file, "-o", "out.parquet")
    assert again.exit_code == 0, again.output
    assert "4,096 of 10,000 lotteries are there" in again.stderr
    assert predicted == [4_096, 10_000 - 2 * 4_096]
    assert sum(rows) == 6_000  # from the row group of row 4,096 on; nothing is checked twice
    found = pq.read_table("out.parquet").select(AGENTS)
    assert np.array_equal(np.column_stack(found.columns), load(models / "learned").predict_proba(contexts(10_000)))
    assert not Path("out.parquet.parts").exists()


@pytest.mark.usefixtures("interrupted")
def test_a_part_that_was_cut_off_is_made_again(models, file, predicted):
    part = Path("out.parquet.parts/part-000000.parquet")
    part.write_bytes(part.read_bytes()[:-20])
    assert run("predict", models / "learned", file, "-o", "out.parquet").exit_code == 0
    assert sum(predicted) == 10_000


@pytest.mark.usefixtures("interrupted")
def test_parts_of_something_else_are_refused(models, file):
    assert "an option changed" in refused("predict", models / "learned", file, "--keep", "id", "-o", "out.parquet")
    assert "the model changed" in refused("predict", models / "available", file, "-o", "out.parquet")
    pq.write_table(contexts(100), file)
    told = refused("predict", models / "learned", file, "-o", "out.parquet")
    assert "the input changed" in told
    assert "remove that folder" in told
    Path("out.parquet.parts/manifest.json").write_text("{}")
    assert "cannot be read" in refused("predict", models / "learned", file, "-o", "out.parquet")
    assert run("predict", models / "learned", file, "-o", "other.parquet").exit_code == 0


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("value", "told"), [(np.nan, "found nan"), (1e300, "1e\\+300 is not a finite number")])
def test_rows_are_checked_before_the_first_is_predicted(models, file, predicted, value, told):
    Path("folder").mkdir()
    table = contexts(10_000)
    length = table["length"].to_numpy().copy()
    length[9_000] = value
    table = table.set_column(2, "length", pa.array(length))
    pq.write_table(table[:7_000], "folder/a.parquet")
    pq.write_table(table[7_000:], "folder/b.parquet")
    with pytest.raises(ne.ReadError, match=rf"folder/b\.parquet, column 'length', row 2001: {told}"):
        raise run("predict", models / "learned", "folder", "-o", "out.parquet").exception
    assert predicted == []
    assert not list(Path().glob("out*"))


@pytest.mark.usefixtures("small_blocks")
def test_a_glob_chosen_rows_and_a_joined_file(models, file):
    table = contexts(10_000)
    pq.write_table(table.select(["id", "length"]), "more.parquet")
    for number in range(2):
        pq.write_table(table.drop_columns(["length"])[number * 5_000 :][:5_000], f"part-{number}.parquet")
    words = ["--join", "more.parquet:id", "--where", "language=de|en", "--keep", "id,language"]
    done = run("predict", models / "learned", "part-*.parquet", *words, "-o", "out.parquet")
    assert done.exit_code == 0, done.output
    chosen = table.filter(pa.compute.is_in(table["language"], pa.array(["de", "en"])))
    found = pq.read_table("out.parquet")
    assert found["id"].equals(chosen["id"])
    lotteries = load(models / "learned").predict_proba(chosen)
    assert np.array_equal(np.column_stack([found[agent] for agent in AGENTS]), lotteries)


MEMORY = """
import sys
import nasheval.feedback.readers.parquet_files as files
import nasheval.policy.base as base
from nasheval.cli import app
base._MOST = files.BATCH_ROWS = 1 << 13
from typer.testing import CliRunner
result = CliRunner().invoke(app, ["predict", *sys.argv[1:]])
assert result.exit_code == 0, result.output
print([line for line in open("/proc/self/status") if line.startswith("VmHWM")][0].split()[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the peak memory of a process")
def test_memory_does_not_grow_with_the_file(models, tmp_path):
    peaks = []
    for n in (60_000, 240_000):
        rng = np.random.default_rng(0)
        wide = {f"wide{c}": rng.random(n) for c in range(20)}
        pq.write_table(
            pa.table({**dict(zip(contexts(n).column_names, contexts(n).columns, strict=True)), **wide}),
            tmp_path / f"{n}.parquet",
            row_group_size=20_000,
        )
        words = [models / "learned", tmp_path / f"{n}.parquet", "--keep", ",".join(wide), "-o", tmp_path / "o.parquet"]
        command = [sys.executable, "-c", MEMORY, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
    assert peaks[1] < 1.08 * peaks[0]


class _Workers:
    """Two workers that stand in for those of Ray: each call is made from scratch, as on another machine."""

    count = 2

    def __init__(self):
        self.asked = []

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return None

    def run(self, call, arguments, done=lambda: None):
        cloudpickle = pytest.importorskip("ray.cloudpickle")
        self.asked.append(list(arguments))
        return [cloudpickle.loads(cloudpickle.dumps(call))(number) for number in arguments]


@pytest.mark.usefixtures("small_blocks")
def test_the_workers_of_a_cluster_share_the_parts_out(models, file, monkeypatch):
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    assert run("predict", models / "voters", file, "-o", "local.parquet").exit_code == 0
    pool = _Workers()
    monkeypatch.setattr("nasheval.engine.workers", lambda engine: pool)
    done = run("predict", models / "voters", file, "-o", "ray.parquet", "--engine", "ray")
    assert done.exit_code == 0, done.output
    assert pool.asked == [[0, 1], [2]]
    assert pq.read_table("ray.parquet").equals(pq.read_table("local.parquet"))
