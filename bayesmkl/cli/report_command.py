"""The command `report`: a page about a run."""

from __future__ import annotations

from pathlib import Path

from bayesmkl.cli.commands import check_summarized, new_rows, rows_with_target
from bayesmkl.cli.folders import CONFIG, load_run
from bayesmkl.cli.held_out import HELD_OUT
from bayesmkl.cli.report import notes_of_warnings, say
from bayesmkl.evaluation import report_model


def run_report(run: Path, data: Path | None, out: Path | None, refits: bool, seed: int) -> None:
    """Write the report of a run, as a page of HTML, and as Markdown beside it.

    Predictions are judged by the new rows of `data`, or by the rows that `fit` held out.
    """
    page = run / "report.html" if out is None else _page(run, out)
    with notes_of_warnings():
        model, config = load_run(run)
        check_summarized(config, "report")
        X = y = None
        note = ""
        held_out = next(run.glob(f"{HELD_OUT}.*"), None)  # not there after --refit
        if data is not None:
            X, y, note = new_rows(run, config, data)
        elif held_out is not None:
            X, y = rows_with_target(config, held_out)
        title = f"{config['target']} ({run.absolute().name})"
        report = report_model(model, X, y, title=title, refits=refits, random_state=seed)
    if note:
        report.parts = {**report.parts, "Predictions": [note, *report.parts["Predictions"]]}
    page.parent.mkdir(exist_ok=True)
    written = [report.write_html(page), report.write_markdown(page.with_suffix(".md"))]
    say(f"Written to {' and '.join(map(str, written))}.")


def _page(run: Path, out: Path) -> Path:
    """Return the page to write; raise where it cannot be, before anything is computed."""
    is_page = out.suffix == ".html" and not out.is_dir()
    page = out if is_page else out / "report.html"
    if not is_page and not out.is_dir() and (out.exists() or out.suffix[1:].isalpha()):
        raise ValueError(
            f"--out must be a folder, or a page that ends in .html; got {str(out)!r}. Markdown is written beside it."
        )
    folder = page.absolute().parent
    inside = folder if is_page or folder.is_dir() else folder.parent
    if not inside.is_dir():
        raise ValueError(f"--out must be in a folder that exists; {str(inside)!r} does not.")
    if (folder / CONFIG).is_file() and folder.resolve() != run.absolute().resolve():
        raise ValueError(
            f"--out {str(page)!r} is in the folder of another run. Choose another folder, or leave it out."
        )
    return page
