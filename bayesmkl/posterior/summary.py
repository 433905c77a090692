"""What a fitted model says of its outcome: a table of views, and a page of fifteen lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.metrics import roc_auc_score

from bayesmkl._utils.validation import check_flag, check_integer, check_probability, counted, generator_of
from bayesmkl.gp.hyperposterior import GOOD_K, LARGEST_K, LARGEST_RHAT, LEAST_DRAWS
from bayesmkl.gp.reading import average_left_out
from bayesmkl.kernels.views import ALL_VIEWS, NOISE, TOGETHER
from bayesmkl.outcomes import Heteroscedastic
from bayesmkl.outcomes.times import concordance
from bayesmkl.posterior.checks import line_of_text
from bayesmkl.posterior.checks import table as aligned
from bayesmkl.posterior.diagnose import ADVICE, GOOD_ESS, GOOD_RHAT, hyperparameters_section
from bayesmkl.posterior.explained import explained_draws, unit_of
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl, public
from bayesmkl.posterior.loo import leave_one_out_by_cavities, log_predictive_of_points
from bayesmkl.posterior.refine import PLURALS, valid_intervals
from bayesmkl.posterior.relevance import AGAINST, NO_EVIDENCE, PREDICTS
from bayesmkl.posterior.tables import (
    OF_SHARES,
    QUANTILES,
    caption,
    interval_by,
    of_all_models,
    sizes,
    table_of_draws,
)
from bayesmkl.posterior.verdicts import has_evidence, sentence, verdicts

MOST_VIEWS = 6  # on the page of a summary
ENDS = ("", "_lower", "_upper")
WIDE = 0.2  # interval of explained variance from which on it is a question that stays open


@public
def view_table(
    model: BaseEstimator,
    ci_prob: float = 0.94,
    n_draws: int | None = None,
    random_state: int | np.random.Generator | None = None,
    *,
    shares: bool = False,
    kernels: ArrayLike | None = None,
) -> pd.DataFrame:
    """List the size of each view's effect on the outcome, the variance that it explains, and the evidence for it.

    Parameters
    ----------
    model : estimator
        A fitted BEMKLClassifier, BEMKLRegressor or estimator of `bayesmkl.gp`, or a Pipeline or search that
        ends in one.
    %(ci_prob)s
    n_draws : int, default=None
        Number of draws from the posterior. Existing chains give at most this many each, at even distances. None takes
        200 draws from a variational posterior and all draws of chains. Each draw takes a matrix-vector product with
        every training kernel.
    %(random_state)s
    shares : bool, default=False
        Whether to also list shares of the score, which sum to one even if the score predicts nothing.
    %(kernels:kept)s

    Returns
    -------
    pandas.DataFrame
        One row per view by falling explained variance, then the rows "all views" and "not explained". Each class or
        label with its own kernel weights has all these rows. Each precomputed kernel without views is its own view.
        The columns are

        * ``class`` or ``label``: as in ``classes_``; only if these have their own kernel weights;
        * ``view``: name of the view;
        * ``effect``: standard deviation over the training rows of the part of the view, in units of the outcome: of
          the target; of log odds or a probit; of log times or log rates. In the row "not explained" it is the
          standard deviation of the noise;
        * ``explained``: the part of the variance of the outcome that the view explains, see Notes. In the row
          "all views" it is R²;
        * ``effect_lower``, ``effect_upper``, ``explained_lower``, ``explained_upper``: ends of their intervals;
        * ``verdict``: "clear", "weak", "no evidence" or "evidence against", from the evidence of the model with the
          view against the model without it; empty for "not explained" and for models without evidence;
        * ``share``, ``share_std``, ``share_lower``, ``share_upper``: with `shares`, as in :func:`kernel_table`,
          summed over the kernels of a view, and their Monte Carlo standard errors if these are known;
        * ``interval_by``: the inference that made the intervals, as in :func:`kernel_table`.

        ``table.attrs["caption"]`` explains the numbers, their units, and intervals below zero.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If a BEMKL model was fitted to precomputed kernels and `kernels` are missing; if `ci_prob` is not strictly
        between 0 and 1, `n_draws` is not a whole number of at least 2, or `random_state` is not a seed.

    Notes
    -----
    In every draw, the variance that a view explains is the covariance of its part with the score over the training
    rows, divided by the variance of score plus noise. These numbers add up to the row "all views". A view with a
    negative number offsets other views. In regression, the variance of the noise is that of the target around the
    score. For labels and grades it is 1 on the scale of a probit and π²/3 on the scale of log odds. For times it is
    the variance of log times around the score. For counts it is the variance of the log of a count around its log
    rate. Covariates and groups of a design are accounted for first.

    The training kernels of a BEMKL model are evaluated again and take the memory that they took at `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import view_table
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> bank = KernelBank(["linear", "rbf"], views={"signal": 0, "noise": 1})
    >>> model = GPMKLRegressor(bank, together=False).fit(X, X[:, 0] + 0.5 * rng.normal(size=60))
    >>> table = view_table(model)
    >>> table["view"].tolist()
    ['signal', 'noise', 'all views', 'not explained']
    >>> table["effect"].round(1).tolist()[0], bool(table["explained_lower"][0] > 0.5)
    (0.9, True)
    """
    check_probability("ci_prob", ci_prob)
    check_flag("shares", shares)
    fitted = fitted_bemkl(model)
    n_draws = None if n_draws is None else check_integer("n_draws", n_draws, low=2)
    rng = generator_of("random_state", random_state)
    fitted.refuse_kernels(kernels)
    groups = fitted.kernel_groups(None)
    known = explained_draws(fitted, groups, n_draws, rng, kernels)
    names, tail = [*dict.fromkeys(groups), ALL_VIEWS, NOISE], 0.5 * (1.0 - ci_prob)
    found = verdicts(fitted.estimator) if has_evidence(fitted) else {}
    words = {name: verdict.word for name, verdict in found.items()}
    tables = []
    for own in known:
        table = pd.DataFrame({"view": names, **sizes(own, tail)})
        table["verdict"] = [words.get(name, "") for name in names]
        if shares:
            of_shares = table_of_draws(fitted, [{}] * own.share.shape[1], own.share, ci_prob)
            table = table.join(of_shares.rename(columns=OF_SHARES).drop(columns="interval_by"))
        tables.append(table.assign(interval_by=interval_by(fitted)))
    whole = of_all_models(fitted, tables, ci_prob, QUANTILES)
    below = dict.fromkeys(whole["view"][whole["explained_upper"] < 0.0])
    offsets = [f"{name} offsets other views: without it they would explain more." for name in below]
    whole.attrs["caption"] = " ".join([caption(fitted, ci_prob, "view"), *offsets])
    whole.attrs["headline"] = sentence(found) if found else ""
    return whole


class Summary:
    """Result of :func:`summary`; printed, it is a page of some fifteen lines.

    Parameters
    ----------
    lines : sequence of str
        Of the page.
    table : pandas.DataFrame of shape (n_rows, n_columns)
        :func:`view_table` of the model.
    sentences : sequence of str, default=()
        What the page says beside its table, a paragraph each.

    Examples
    --------
    >>> print(Summary(["GPMKLRegressor", "60 rows"], pd.DataFrame()))
    GPMKLRegressor
    60 rows
    """

    def __init__(self, lines: Sequence[str], table: pd.DataFrame, sentences: Sequence[str] = ()) -> None:
        self.lines, self.table, self.sentences = list(lines), table, list(sentences)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__


@public
def summary(model: BaseEstimator, ci_prob: float = 0.94, *, kernels: ArrayLike | None = None) -> Summary:
    """Summarize in about fifteen lines what a fitted model found, what stays open, and whether to trust it.

    Parameters
    ----------
    %(model)s
    %(ci_prob)s
    %(kernels:kept)s

    Returns
    -------
    Summary
        It prints the model and its data; whether the views predict the outcome; what each view adds, as in
        :func:`view_table`; which questions stay open; how well the model predicts training rows that are left out,
        compared with a prediction without features; and whether the computation is reliable, with a remedy if not.
        After :func:`diagnose` it also prints a call that predicts better, if there is one. Its ``table`` has all
        numbers of the views.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If a BEMKL model was fitted to precomputed kernels and `kernels` are missing, or if `ci_prob` is not strictly
        between 0 and 1.

    See Also
    --------
    view_table : All numbers of the views.
    diagnose : All checks of the computation and the predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import summary
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> bank = KernelBank(["linear"], views={"signal": 0, "noise": 1})
    >>> page = summary(GPMKLRegressor(bank, together=False).fit(X, X[:, 0] + 0.5 * rng.normal(size=60)))
    >>> page.lines[0]
    'GPMKLRegressor of 60 rows: numbers from -3.04 to 1.96, median -0.122; 2 kernels of 2 views'
    """
    fitted = fitted_bemkl(model)
    table = view_table(model, ci_prob, random_state=0, kernels=kernels)
    names = [name for name in fitted.kernel_groups(None) if name != TOGETHER]
    lines = [
        f"{type(fitted.estimator).__name__} of {fitted.n_samples} rows: {_outcome(fitted)}; "
        f"{counted(len(fitted.kernel_names), 'kernel')} of {counted(len(set(names)), 'view')}"
    ]
    examined, advice = ADVICE.get(fitted.estimator, (None, ""))
    better = advice if examined is fitted.estimator.posterior_ else ""  # of an earlier fit otherwise
    first = table.attrs["headline"]
    said = [_open_questions(fitted, table), _left_out(fitted), _trust(fitted), better]
    lines += line_of_text(first) + _rows(fitted, table, ci_prob)
    for text in said:
        lines += line_of_text(text)
    return Summary(lines, table, [text for text in (first, *said) if text])


def _outcome(fitted: FittedBEMKL) -> str:
    """Describe the target."""
    target = np.asarray(fitted.target)
    if target.ndim > 1:
        return f"{target.shape[1]} {PLURALS[fitted.output_kind]}"
    if fitted.outcome in ("labels", "grades"):
        classes = fitted.estimator.classes_  # grades in their order
        return f"{fitted.outcome} {', '.join(f'{value} ({(target == value).sum()})' for value in classes)}"
    low, middle, high = np.quantile(target, [0.0, 0.5, 1.0])
    events = ""
    if fitted.outcome == "times":
        events = f", {int((fitted.estimator.target_[0] == fitted.estimator.target_[1]).sum())} events"
    return f"{fitted.outcome} from {low:.3g} to {high:.3g}, median {middle:.3g}{events}"


def _rows(fitted: FittedBEMKL, table: pd.DataFrame, ci_prob: float) -> list[str]:
    """Return the lines of the largest views, of all views, and of what is not explained."""
    is_part = ~table["view"].isin([ALL_VIEWS, NOISE])
    kept = table[is_part].sort_values("explained", ascending=False, kind="stable").head(MOST_VIEWS).index
    shown = table if len(kept) == is_part.sum() else table[~is_part | table.index.isin(kept)]
    rows = []
    for name, (_, row) in zip(_names(shown), shown.iterrows(), strict=True):
        effect, explained = ([row[f"{size}{end}"] for end in ENDS] for size in ("effect", "explained"))
        percents = "{} [{}, {}]".format(*(round(100 * e) for e in explained))
        rows.append([name, "{:.2g} [{:.2g}, {:.2g}]".format(*effect), percents, row["verdict"]])
    heads = ["", f"effect [{100 * ci_prob:g} %]", "explained %", "verdict"]
    more = [f"Effects are in {unit_of(fitted)}."]
    if len(shown) < len(table):
        more = [f"{more[0]} {len(table) - len(shown)} further views are in `view_table(model)`."]
    return [*aligned(heads, rows), *more]


def _open_questions(fitted: FittedBEMKL, table: pd.DataFrame) -> str:
    """Say what the fit cannot say."""
    parts = table[~table["view"].isin([ALL_VIEWS, NOISE])]
    named, said = _names(parts), []
    unsure = [name for name, word in zip(named, parts["verdict"], strict=True) if word == NO_EVIDENCE]
    if unsure:
        which = f"{', '.join(unsure[:MOST_VIEWS])}{' and others' if len(unsure) > MOST_VIEWS else ''}"
        said.append(f"whether {which} add{'s' * (len(unsure) == 1)} anything, or nothing")
    width = (parts["explained_upper"] - parts["explained_lower"]).to_numpy()
    w = int(width.argmax())
    if width[w] > WIDE:
        lower, upper = (round(100 * max(parts[f"explained{end}"].iloc[w], 0.0)) for end in ENDS[1:])
        said.append(f"how much {named[w]} explains: anything from {lower} to {upper} %")
    answers = [f"What the fit cannot say: {'; '.join(said)}. More rows would help."] if said else []
    if not parts["verdict"].isin([*PREDICTS, NO_EVIDENCE, AGAINST]).all():
        by = "inclusion_table" if fitted.selects_kernels else "relevance"
        answers.append(
            f"Not every view was tested: use `{by}(model)`."
            if fitted.process is None
            else f"Fit a {fitted.process} to know which views predict the outcome."
        )
    return " ".join(answers) or "The fit leaves no question about views open."


def _names(table: pd.DataFrame) -> list[str]:
    """Return names of the rows, with the class where there are several."""
    first = list(table.columns)[: list(table.columns).index("view") + 1]
    return [" · ".join(map(str, row)) for row in table[first].to_numpy()]


def _left_out(fitted: FittedBEMKL) -> str:
    """Say how well rows are predicted by the others, beside knowing nothing."""
    if not fitted.is_marginal or fitted.has_landmarks:
        also = " or `diagnose`" if fitted.process is None else ""
        return f"Predictions of left-out rows are not known from this fit: use `cross_val_score`{also}."
    loo, estimator = leave_one_out_by_cavities(fitted), fitted.estimator
    draws, target = fitted.states[0], np.asarray(fitted.target)
    start = "Rows that are left out are predicted with"
    if loo.log_probabilities is not None and fitted.output_kind != "label":
        classes, own = estimator.classes_, np.exp(loo.log_probabilities)
        frequencies = np.unique(target, return_counts=True)[1] / len(target)
        auc = ""
        if len(classes) == 2:
            value = roc_auc_score(target == classes[1], own[:, 1])
            auc = f"an AUC of {value:.2f} (knowing nothing: 0.50) and "
        nothing = -float(frequencies @ np.log(frequencies))
        return f"{start} {auc}a log loss of {-loo.elpd_i.mean():.3f} (knowing nothing: {nothing:.3f})."
    moments = draws.cavity_mean, draws.cavity_variance
    left = average_left_out(draws.probability, log_predictive_of_points(fitted, *moments))
    score = np.einsum("pi,pki->ki", np.exp(left.log_weights), draws.cavity_mean)
    if fitted.outcome == "numbers" and not isinstance(estimator.likelihood_, Heteroscedastic):
        y = estimator._targets_of_outputs()
        apart = ((y - y.mean(axis=1, keepdims=True)) ** 2).sum() * (y.shape[1] / (y.shape[1] - 1)) ** 2
        return f"{start} an R² of {1.0 - ((y - score) ** 2).sum() / apart:.2f} (knowing nothing: 0)."
    if fitted.outcome == "times":
        y = np.empty(len(target), dtype=[("event", bool), ("time", float)])
        y["event"], y["time"] = estimator.target_[0] == estimator.target_[1], target
        risk = -score[0] if estimator.likelihood_.rises else score[0]
        return f"{start} a concordance of {concordance(risk, y):.2f} (knowing nothing: 0.50)."
    what = "probability" if fitted.outcome in ("counts", "labels") else "density"
    return f"{start} a mean log {what} of {loo.elpd_i.mean():.2f}."


def _trust(fitted: FittedBEMKL) -> str:
    """Say whether the computation can be trusted, and what to do if not."""
    estimator: Any = fitted.estimator
    if fitted.inference == "vb":
        start = "" if estimator.converged_ else "The fit did not converge: increase `max_iter`. "
        return f"{start}Its intervals are too narrow, as variational ones are. {valid_intervals(fitted)}"
    if not fitted.is_marginal:
        if estimator.converged_:
            return "The Markov chains agree: the intervals can be trusted."
        return "The Markov chains do not agree: draw longer ones."
    section = hyperparameters_section(fitted)
    chains, rough = "rhat" in section.values, section.verdict == "caution"
    name, good, largest = ("R-hat", GOOD_RHAT, LARGEST_RHAT) if chains else ("k-hat", GOOD_K, LARGEST_K)
    limit = good if rough else largest  # that of the warning at `fit`
    number, ess = float(section.values["rhat" if chains else "pareto_k"]), section.values["ess"]
    found = f"({name} {number:.2f}, at most {limit:g} is wanted"
    if section.verdict == "good" and estimator.converged_:
        return f"The computation can be trusted {found})."
    what = (
        "The ends of the intervals are rough"
        if rough
        else "The posterior of the kernel weights could not be sampled well"
    )
    least = GOOD_ESS if chains else LEAST_DRAWS
    few = f"; {ess:.0f} effective draws, at least {least:.0f} are wanted" * (ess < least)
    return f"{what} {found}{few}). {section.advice.split('draws. ')[-1]}"
