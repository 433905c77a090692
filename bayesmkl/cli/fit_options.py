"""Options of `bayesmkl fit`, and which of them go together."""

from __future__ import annotations

from typing import Any, NamedTuple

from bayesmkl.cli.designs import design_columns
from bayesmkl.cli.fit_views import pairs_of
from bayesmkl.gp import Design, Marginal

# By method, the default first.
KERNEL_PRIORS = {
    "bemkl": ("nonsparse", "sparse"),
    "gpmkl": ("dirichlet", "half-t", "horseshoe", "spike-slab"),
}
LIKELIHOODS = {
    "regression": ("gaussian", "student-t", "poisson", "negative-binomial"),
    "classification": ("probit", "logit"),
    "survival": ("log-logistic", "log-normal", "weibull", "piecewise-hazard"),
}
COUNTS = ("poisson", "negative-binomial")
SLOPE = "GROUP=COVARIATE, such as subject=week"
DESIGN = ("covariate", "group", "slope", "task_column", "offset", "precision")


class FitOptions(NamedTuple):
    """Everything that decides a fit, as it is kept in the run's configuration."""

    target: str
    task: str = "auto"
    kernels_on: str = "all+each"
    view: tuple[str, ...] = ()
    view_kernels: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    method: str = "bemkl"
    likelihood: str | None = None
    kernel_prior: str | None = None
    multiclass: str | None = None
    nonnegative: bool = False
    unlabeled_label: str | None = None
    missing_views: str = "error"
    event: str | None = None
    level: tuple[str, ...] = ()
    covariate: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    slope: tuple[str, ...] = ()
    task_column: str | None = None
    task_correlation: str = "equal"
    offset: str | None = None
    precision: str | None = None
    inference: str = "vb"
    draws: int = 1000
    refine: bool = False
    drop: tuple[str, ...] = ()
    test_size: float = 0.3
    seed: int = 0
    max_iter: int = 3000
    tol: float = 1e-6
    refit: bool = False

    @property
    def design(self) -> Design | None:
        """The columns that are no features, None where there are none."""
        slopes: dict[str | int, list[str | int]] = {}
        for group, covariate in pairs_of("--slope", self.slope, SLOPE):
            slopes.setdefault(group, []).append(covariate)
        found = Design(
            offset_column=self.offset,
            covariate_columns=self.covariate,
            group_columns=self.group,
            slope_columns=slopes or None,
            task_column=self.task_column,
            task_correlation=self.task_correlation,
            precision_column=self.precision,
        )
        return found if design_columns(found) else None

    @property
    def unseen(self) -> list[Any]:
        """The columns that no kernel sees: those of a design."""
        return design_columns(self.design)

    @property
    def sampling(self) -> str | None:
        """The option that asks for draws instead of VB, or after it."""
        if self.inference != "vb":
            return f"--inference {self.inference}"
        return "--refine" if self.refine else None

    @property
    def by_gibbs(self) -> bool:
        """Whether posteriors are sampled by Gibbs, which knows one score only."""
        return self.inference == "gibbs" or self.refine


def check_options(options: FitOptions) -> None:
    """Raise for options that are out of range or do not go together."""
    if not 0.0 < options.test_size < 1.0:
        raise ValueError(
            f"--test-size must be between 0 and 1; got {options.test_size:g}. 0.3 holds out 30 %."
        )
    if options.task != "ordinal" and options.level:
        raise ValueError("--level is the order of grades, of --task ordinal. Leave it out, or give both.")
    if (options.event is None) == (options.task == "survival"):
        raise ValueError(
            "--event names the column that says whether the event was seen, of --task survival. Give both "
            "of them, or neither."
        )
    if options.view and options.kernels_on != FitOptions._field_defaults["kernels_on"]:
        raise ValueError(
            f"--view says what kernels see, and so does --kernels-on {options.kernels_on}. Leave one of them out."
        )
    _check_types(options)
    _check_method(options)
    _check_design(options)
    if options.refine and options.inference != "vb":
        raise ValueError(
            f"--refine follows --inference vb; got {options.inference}, whose draws need no refinement. Leave it out."
        )
    closed_form_only = {
        "--multiclass multinomial": options.multiclass == "multinomial",
        "--nonnegative": options.nonnegative,
        "--unlabeled-label": options.unlabeled_label is not None,
        "--missing-views integrate": options.missing_views == "integrate" and options.method == "bemkl",
    }
    for name, given in closed_form_only.items():
        if given and options.sampling is not None:
            raise ValueError(
                f"{name} is for variational inference only. Leave it out, or {options.sampling}."
            )
    if options.multiclass == "shared" and options.by_gibbs:
        raise ValueError(
            f"--multiclass shared has no Gibbs sampler, which {options.sampling} needs. Use --multiclass "
            "one-versus-all, or --inference nuts."
        )
    if options.missing_views == "integrate" and options.kernels_on != "each" and not options.view:
        raise ValueError(
            "--missing-views integrate needs --kernels-on each, where every column is a view of its own; got "
            f"--kernels-on {options.kernels_on}, and kernels on all columns need all of them. Views of several "
            "columns, which are empty together, are named by --view."
        )


def _check_types(options: FitOptions) -> None:
    """Raise for what does not go with views by the types of columns."""
    if options.kernels_on != "types":
        if options.category:
            raise ValueError("--category is of --kernels-on types. Give both, or leave it out.")
        return
    given = {
        "--kernels": options.view_kernels,
        "--missing-views": options.missing_views != "error",
        "a design": options.design is not None,
    }
    for name, is_given in given.items():
        if is_given:
            raise ValueError(
                f"--kernels-on types chooses kernels and fills empty cells in; got {name} as well. Leave one of them "
                "out."
            )


def _check_method(options: FitOptions) -> None:
    """Raise for options that the method does not have."""
    priors = KERNEL_PRIORS[options.method]
    if options.kernel_prior is not None and options.kernel_prior not in priors:
        raise ValueError(
            f"--kernel-prior must be {', '.join(priors[:-1])} or {priors[-1]} with --method {options.method}; got "
            f"{options.kernel_prior}."
        )
    if options.method == "bemkl":
        _check_bemkl(options)
        return
    if options.inference != Marginal.name:
        raise ValueError(
            f"--method gpmkl has --inference {Marginal.name} only; got {options.inference}. Leave it out."
        )
    default = FitOptions._field_defaults
    of_bemkl = ("multiclass", "nonnegative", "unlabeled_label", "refine", "max_iter", "tol")
    for name in of_bemkl:
        if getattr(options, name) != default[name]:
            raise ValueError(
                f"--{name.replace('_', '-')} is an option of --method bemkl; got it with --method gpmkl. Leave one "
                "of them out."
            )


def check_likelihood(options: FitOptions) -> None:
    """Raise for a likelihood of another task than that of the options, which is known."""
    known = LIKELIHOODS.get(options.task, ())
    if options.likelihood is not None and options.likelihood not in known:
        of = f"is {', '.join(known[:-1])} or {known[-1]}" if known else "is none"
        raise ValueError(
            f"--likelihood of --task {options.task} {of}; got {options.likelihood}. Leave it out, or give the --task."
        )


def _check_design(options: FitOptions) -> None:
    """Raise for slopes of columns that are no groups or covariates, and for correlations of no tasks."""
    for group, covariate in pairs_of("--slope", options.slope, SLOPE):
        for name, given, known in (
            ("group", group, options.group),
            ("covariate", covariate, options.covariate),
        ):
            if given not in known:
                raise ValueError(
                    f"--slope {group}={covariate} is of the {name} {given!r}, which --{name} does not name; it has "
                    f"{', '.join(map(repr, known)) or 'nothing'}. Name it there too: a slope differs from the mean "
                    "effect of its covariate."
                )
    if options.task_column is None and options.task_correlation != "equal":
        raise ValueError(
            f"--task-correlation {options.task_correlation} is of tasks, which --task-column names. Give both, or "
            "leave it out."
        )


def _check_bemkl(options: FitOptions) -> None:
    """Raise for what BEMKL, or BEMKL of this task, does not have."""
    if options.inference == Marginal.name:
        raise ValueError(
            f"--inference {Marginal.name} is of --method gpmkl; got it with --method bemkl. Add --method gpmkl, or "
            "leave it out."
        )
    if options.likelihood is not None:
        raise ValueError(
            "--likelihood is an option of --method gpmkl; got it with --method bemkl. Leave it out, or choose gpmkl."
        )
    if options.missing_views == "impute":
        raise ValueError(
            "--missing-views impute is for --method gpmkl; got it with --method bemkl. Use integrate, or gpmkl."
        )
    if options.design is not None:
        given = next(name for name in DESIGN if getattr(options, name))
        raise ValueError(
            f"--{given.replace('_', '-')} is an option of --method gpmkl; got it with --method bemkl. Leave it "
            "out, or choose gpmkl."
        )
    if options.task not in ("ordinal", "survival"):
        return
    default = FitOptions._field_defaults
    for name in ("multiclass", "unlabeled_label", "missing_views", "inference", "refine"):
        if getattr(options, name) != default[name]:
            raise ValueError(
                f"--{name.replace('_', '-')} is not for --task {options.task} with --method bemkl, which has "
                "--inference vb alone. Leave it out, or choose --method gpmkl."
            )


def may_be_empty(config: dict[str, Any]) -> bool:
    """Return whether the model of a run takes empty cells."""
    return config.get("missing_views", "error") != "error" or has_types(config)


def has_types(config: dict[str, Any]) -> bool:
    """Return whether the model of a run takes columns of any type."""
    return config.get("kernels_on") == "types"
