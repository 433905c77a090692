"""The command `report`: a page about a run."""

from __future__ import annotations

from pathlib import Path

from bayesmkl.cli.commands import check_summarized, rows_with_target
from bayesmkl.cli.folders import CONFIG, load_run
from bayesmkl.cli.report import notes_of_warnings, say
from bayesmkl.evaluation import report_model

__all__ = ["run_report"]


def run_report(run: Path, data: Path | None, out: Path | None, refits: bool, seed: int) -> None:
    """Write the report of a run, as a page of HTML, and as Markdown beside it."""
    page = run / "report.html" if out is None else out
    _check_out(run, page)
    with notes_of_warnings():
        model, config = load_run(run)
        check_summarized(config, "report")
        X, y = (None, None) if data is None else rows_with_target(config, data)
        title = f"{config['target']} ({run.absolute().name})"
        report = report_model(model, X, y, title=title, refits=refits, random_state=seed)
    written = [report.write_html(page), report.write_markdown(page.with_suffix(".md"))]
    say(f"Written to {' and '.join(map(str, written))}.")


def _check_out(run: Path, page: Path) -> None:
    """Raise where a page cannot be, before anything is computed."""
    if page.suffix != ".html":
        raise ValueError(f"--out must end in .html; got {str(page)!r}. Markdown is written beside it.")
    folder = page.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"--out must be in a folder that exists; {str(folder)!r} does not.")
    if (folder / CONFIG).is_file() and folder.resolve() != run.absolute().resolve():
        raise ValueError(
            f"--out {str(page)!r} is in the folder of another run. Choose another folder, or leave it out."
        )
