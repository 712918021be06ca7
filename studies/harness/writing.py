"""The results of a study as a folder of small files, and back.

`results.json` (settings, tables, claims, time, machine), `rows.csv`, `table.md` and one PNG per figure.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nasheval import InputError, __version__
from studies.harness.rows import Rows
from studies.harness.running import Finished
from studies.harness.study import Claim, Table, claims_table

RESULTS = "results.json"
KEPT = Path(__file__).parents[1] / "results"  # of full studies, a folder each
_DPI = 130


@dataclass(frozen=True)
class Report:
    """What came out of a study.

    Args:
        name: of the study.
        title: what it asks.
        paper: the tables and figures that it reproduces.
        settings: scale, seeds, seconds, version, machine.
        tables: as people read them.
        claims: and how they came out.
    """

    name: str
    title: str
    paper: str
    settings: dict[str, Any]
    tables: tuple[Table, ...]
    claims: tuple[Claim, ...]

    @property
    def all_tables(self) -> tuple[Table, ...]:
        """The tables, that of the claims last."""
        return (*self.tables, claims_table(self.claims, quick=self.settings["quick"])) if self.claims else self.tables

    @property
    def command(self) -> str:
        """The command line that makes it again."""
        return " ".join(["python -m studies", self.name, *(["--quick"] if self.settings["quick"] else [])])

    def markdown(self) -> str:
        """Return everything as Markdown."""
        about = f"`{self.command}` ({made_by(self.settings)})"
        parts = (f"### {self.title}", f"{self.paper}. {about}", *(table.markdown() for table in self.all_tables))
        return "\n\n".join(parts) + "\n"


def made_by(settings: dict[str, Any]) -> str:
    """Return in words how long a study took, and where."""
    seeds = f"seeds {settings['seeds']}; " if settings.get("seeds") else ""
    return f"{seeds}{settings['seconds']:,.0f} s of work on {settings['machine']}"


def write(finished: Finished, folder: Path) -> Report:
    """Write the results of a finished study into its folder; draw its figures where matplotlib is installed."""
    study, rows = finished.study, finished.rows
    seeds = [str(seed) for seed in sorted({int(s) for s in rows.values("seed")})]
    settings = {
        "quick": finished.scale.quick,
        "seeds": ", ".join(seeds),
        "seconds": round(finished.seconds, 1),
        "version": __version__,
        "machine": "; ".join(finished.machines),
    }
    tables, claims = tuple(study.tables(rows)), tuple(study.claims(rows))
    report = Report(study.name, study.title, study.paper, settings, tables, claims)
    (folder / RESULTS).write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
    (folder / "table.md").write_text(report.markdown(), encoding="utf-8")
    _write_csv(rows, folder / "rows.csv")
    _draw(finished, folder)
    return report


def _write_csv(rows: Rows, path: Path) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def _draw(finished: Finished, folder: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        return
    from matplotlib import pyplot

    with matplotlib.rc_context({"backend": "agg"}):
        for name, figure in finished.study.figures(finished.rows).items():
            figure.savefig(folder / f"{name}.png", dpi=_DPI, bbox_inches="tight")
            pyplot.close(figure)


def read(folder: Path) -> Report:
    """Return the results that `write` left in a folder."""
    path = folder / RESULTS
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        tables = tuple(_table(one) for one in kept.pop("tables"))
        return Report(**kept | {"tables": tables, "claims": tuple(Claim(**one) for one in kept["claims"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} does not hold the results of a study ({error}).") from None


def _table(kept: dict[str, Any]) -> Table:
    rows: Sequence[Sequence[str]] = kept["rows"]
    return Table(kept["title"], tuple(kept["header"]), tuple(tuple(row) for row in rows), kept["note"])
