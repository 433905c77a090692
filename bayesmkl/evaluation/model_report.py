"""One page about one model: what matters, how surely, for whom, and what it cannot tell."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.files import as_path, written_beside
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_flag, check_probability, generator_of, shown
from bayesmkl.evaluation import model_parts as parts_of
from bayesmkl.evaluation.predictions import Predictions
from bayesmkl.evaluation.report.blocks import Block, inline
from bayesmkl.evaluation.report.markup import join, tag
from bayesmkl.evaluation.report.page import page
from bayesmkl.posterior.checks import held_out_predictions
from bayesmkl.posterior.diagnose import diagnosis_of
from bayesmkl.posterior.fitted import MODEL, fitted_bemkl

N_DRAWS = 1000  # of a diagnosis, in each chain
JUDGED = ("labels", "numbers", "grades")  # outcomes whose held-out predictions a diagnosis judges


class ModelReport:
    """Result of :func:`report_model`: printed, it is Markdown; it writes itself as one page of HTML.

    Parameters
    ----------
    title : str
        Head of the page.
    facts : str
        One line that says what was fitted to what.
    parts : dict of str to list of Block
        Sections by their names.

    Examples
    --------
    >>> from bayesmkl.evaluation.report.blocks import Paragraph
    >>> print(ModelReport("Cells", "40 samples", {"Summary": [Paragraph("All is well.")]}))
    # Cells
    <BLANKLINE>
    40 samples
    <BLANKLINE>
    ## Summary
    <BLANKLINE>
    All is well.
    """

    def __init__(self, title: str, facts: str, parts: Mapping[str, Sequence[Block]]) -> None:
        self.title = title
        self.facts = facts
        self.parts = parts

    def __str__(self) -> str:
        pieces = [f"# {inline(self.title)}", inline(self.facts)]
        for name, blocks in self.parts.items():
            pieces += [f"## {name}", *(block.markdown() for block in blocks)]
        return "\n\n".join(pieces)

    def __repr__(self) -> str:
        return f"ModelReport({self.title!r}, parts={list(self.parts)})"

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one page that needs no other file.

        Parameters
        ----------
        path : path-like
            Where to; a page that is there is replaced, at once and only when the new one is complete.

        Returns
        -------
        pathlib.Path
            `path`.

        Raises
        ------
        TypeError
            If `path` is no path.
        ValueError
            If nothing can be written there.
        """
        content = {name: join(block.html() for block in blocks) for name, blocks in self.parts.items()}
        return self._write(path, page(self.title, tag("p", self.facts, class_="facts"), content))

    def write_markdown(self, path: str | os.PathLike[str]) -> Path:
        """Write Markdown, without pictures.

        Parameters
        ----------
        path : path-like
            Where to; a file that is there is replaced, as by `write_html`.

        Returns
        -------
        pathlib.Path
            `path`.

        Raises
        ------
        TypeError
            If `path` is no path.
        ValueError
            If nothing can be written there.
        """
        return self._write(path, f"{self}\n")

    def _write(self, path: str | os.PathLike[str], text: str) -> Path:
        path = as_path("path", path)
        with written_beside(path) as beside:
            beside.write_text(text, encoding="utf-8")
        return path


@fill_docs(MODEL)
@own_settings
def report_model(
    model: BaseEstimator,
    X: Samples | None = None,
    y: Targets | None = None,
    *,
    kernels: ArrayLike | None = None,
    title: str | None = None,
    refits: bool = False,
    ci_prob: float = 0.94,
    random_state: int | np.random.Generator | None = None,
) -> ModelReport:
    """Write up a fitted model: data, views, held-out predictions, samples, doubts, computation, citation.

    Parameters
    ----------
    %(model)s
    X : samples, default=None
        Samples that the model was not fitted to, as it takes them: they are predicted one by one, and with `y` the
        predictions are judged. None: what is said of samples is of those of training, left out in turn where
        predictions are judged.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), default=None
        Their targets.
    %(kernels:kept)s
    title : str, default=None
        Head of the page; None names the estimator.
    refits : bool, default=False
        Fit again without each view, to say which of them predictions need, as :func:`bayesmkl.posterior.relevance`.
    %(ci_prob)s
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of draws.

    Returns
    -------
    ModelReport
        With `write_html` and `write_markdown`; printed, it is Markdown. Its parts are

        * Summary: whether there is a signal, what matters, how good held-out predictions are, what to doubt;
        * Data: samples, target, and the columns of every view;
        * Views and kernels: shares with intervals, inclusion probabilities under a spike-and-slab prior, effects of
          a `Design`, correlations of tasks;
        * Features: slopes of the score, by :func:`bayesmkl.posterior.feature_table`, where they take a few seconds;
        * Predictions: metrics of held-out samples, and their calibration with its uncertainty;
        * Samples: what every view adds to the score of each of at most 500 samples, by
          :func:`bayesmkl.posterior.contributions`;
        * Trust: all verdicts of :func:`bayesmkl.posterior.diagnose`;
        * Computation: parameters, inference, versions;
        * Citation.

    Raises
    ------
    TypeError
        If `model` is none that :func:`bayesmkl.posterior.diagnose` takes; if `title` is no text.
    NotFittedError
        Before `fit`.
    ValueError
        If there is `y` without `X`, or `X` and `y` do not fit to the model.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.evaluation import report_model
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = np.sin(2 * X[:, 0])
    >>> model = BEMKLRegressor(KernelBank(["rbf"], views="each")).fit(X[:40], y[:40])
    >>> report = report_model(model, X[40:], y[40:], random_state=0)  # then report.write_html("report.html")
    >>> list(report.parts)[:6]
    ['Summary', 'Data', 'Views and kernels', 'Features', 'Predictions', 'Samples']
    """
    if title is not None and not isinstance(title, str):
        raise TypeError(f"`title` must be a str; got {shown(title)}.")
    if y is not None and X is None:
        raise ValueError("`y` must be None without `X`, the samples that it is the target of. Pass both.")
    refits, ci_prob = check_flag("refits", refits), check_probability("ci_prob", ci_prob)
    rng = generator_of("random_state", random_state)
    fitted = fitted_bemkl(model, of_outcome=False)
    on_test = None if X is None else Predictions(model, X, y_train=parts_of.training_times(fitted))
    held_out = None
    if on_test is not None and y is not None and fitted.outcome in JUDGED:
        y = np.asarray(y)
        classes = fitted.is_classifier or fitted.outcome == "grades"
        held_out = held_out_predictions(fitted, on_test.as_model() if classes else model, X, y)
    diagnosis = diagnosis_of(fitted, held_out, kernels, N_DRAWS, ci_prob, rng)
    about = parts_of.Reported(model, fitted, X, y, on_test, diagnosis, ci_prob, rng, kernels)
    parts: dict[str, Sequence[Block]] = {
        "Summary": parts_of.summary(about),
        "Data": parts_of.data(about),
        "Views and kernels": parts_of.views(about, refits),
        "Features": parts_of.features(about),
        "Predictions": parts_of.predictions(about),
        "Samples": parts_of.samples(about),
        "Trust": parts_of.trust(about),
        "Computation": parts_of.computation(about),
        "Citation": parts_of.citation(about),
    }
    name = type(fitted.estimator).__name__
    return ModelReport(title or name, parts_of.facts(about), parts)
