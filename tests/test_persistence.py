"""Models in files: predictions survive to the last bit, nothing unknown is built, nothing half-written stays."""

from __future__ import annotations

import functools
import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy import sparse
from sklearn.base import BaseEstimator, is_regressor
from sklearn.gaussian_process import kernels as gp
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, discriminative, load_model, save_model
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.files import written_beside
from bayesmkl.bemkl import BEMKLMultitaskClassifier, BEMKLMultitaskRegressor, Gamma
from bayesmkl.kernels import Cosine, FromDistance, Gaussian, Laplacian, Linear, Overlap, Polynomial, Tanimoto
from bayesmkl.kernels.adapters import PAIRWISE_NAMES, ForeignKernel
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.functions import MovedPolynomial, ScaledKernel
from bayesmkl.kernels.normalize import NORMALIZATIONS
from bayesmkl.persistence.known_types import GP_TYPES, OWN_TYPES

GP_KERNELS = [
    gp.RBF(2.0) + gp.WhiteKernel(),
    gp.ConstantKernel(2.0) * gp.Matern(1.0),
    gp.Exponentiation(gp.RationalQuadratic(), 2),
    gp.DotProduct(),
    gp.ExpSineSquared(),
    gp.PairwiseKernel(metric="rbf"),
]
OWN_KERNELS = [
    Gaussian(width=2),
    Laplacian(gamma=0.5),
    Polynomial(2),
    Linear(),
    Cosine(),
    Tanimoto(),
    Overlap(),
    FromDistance(),
]
# What a search holds beside estimators, and skops leaves to the user.
SEARCH_TYPES = [
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.utils._metadata_requests.MetadataRequest",  # of scikit-learn 1.7
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
]


def importable_kernel(X, Z):
    return X @ Z.T


class Trap:
    """Remembers that it was built from a file."""

    built = False

    def __init__(self):
        self.content = 1

    def __setstate__(self, state):
        Trap.built = True
        vars(self).update(state)


@pytest.fixture
def data(rng):
    X = rng.uniform(0.1, 1.0, size=(36, 3))
    return X, X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=36)


def labels(y, n_classes):
    return np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, [0.4, 0.7][: n_classes - 1]))]


def models():
    bank = KernelBank([Gaussian(width=1), Polynomial()], views={"left": [0, 1], "right": 2})
    pair = KernelBank([Gaussian(width=2)], views={"left": [0, 1], "right": 2})
    short = {"max_iter": 5, "tol": 0.0}
    scaled = make_pipeline(
        StandardScaler().set_output(transform="pandas"),
        BEMKLClassifier(bank, **short, intermediate_scale=1.0),
    )
    return {
        "binary": (BEMKLClassifier(bank, **short, intermediate_scale=1.0), 2),
        "sparse": (
            BEMKLClassifier(
                bank, kernel_prior="sparse", sample_prior=Gamma(2.0, 3.0), **short, intermediate_scale=1.0
            ),
            2,
        ),
        "shared": (BEMKLClassifier(bank, **short, intermediate_scale=1.0), 3),
        "one-versus-all": (
            BEMKLClassifier(bank, multiclass="one-versus-all", **short, intermediate_scale=1.0),
            3,
        ),
        "multinomial": (BEMKLClassifier(bank, multiclass="multinomial", **short, intermediate_scale=1.0), 3),
        "two positive weights": (BEMKLClassifier(pair, nonnegative=True, **short, intermediate_scale=1.0), 2),
        "positive weights": (BEMKLRegressor(bank, nonnegative=True, **short), 0),
        "random start": (
            BEMKLClassifier(bank, init="random", random_state=3, **short, intermediate_scale=1.0),
            2,
        ),
        "regression": (BEMKLRegressor(bank, **short), 0),
        "pipeline": (scaled, 2),
        "search": (
            GridSearchCV(
                BEMKLClassifier(bank, **short, intermediate_scale=1.0),
                {"kernels__normalize": [None, "trace"]},
                cv=2,
            ),
            2,
        ),
    }


@pytest.mark.heavy
@pytest.mark.parametrize("name", models())
def test_round_trip_keeps_predictions_to_the_last_bit(name, data, tmp_path):
    X, y = data
    model, n_classes = models()[name]
    model.fit(X, labels(y, n_classes) if n_classes else y)
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops", trusted=SEARCH_TYPES if name == "search" else ())
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(again, method)(X[:9]), getattr(model, method)(X[:9]))
    if n_classes == 0:
        np.testing.assert_array_equal(again.predict(X, return_std=True), model.predict(X, return_std=True))


@pytest.mark.parametrize("relation", ["learned", "shared", "separate"])
@pytest.mark.parametrize("estimator", [BEMKLMultitaskClassifier, BEMKLMultitaskRegressor])
def test_round_trip_of_tasks(estimator, relation, data, tmp_path):
    X, y = data
    tasks, bank = np.repeat(["a", "b"], 18), KernelBank([Gaussian(width=1), Polynomial()])
    model = estimator(bank, relation=relation, max_iter=5, tol=0.0)
    model.fit(X, y if is_regressor(model) else labels(y, 2), tasks=tasks)
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(X[:9]), model.predict(X[:9]))
    np.testing.assert_array_equal(again.kernel_shares_, model.kernel_shares_)


def discriminative_estimators():
    classes = [getattr(discriminative, name) for name in discriminative.__all__]
    return [c for c in classes if isinstance(c, type) and issubclass(c, BaseEstimator)]


@pytest.mark.heavy
@pytest.mark.parametrize("estimator", discriminative_estimators(), ids=lambda estimator: estimator.__name__)
def test_round_trip_of_discriminative_estimators_keeps_scores_to_the_last_bit(estimator, data, tmp_path):
    X, y = data
    bank = KernelBank([Gaussian(width=1), Gaussian(width=3)], views={"left": [0, 1], "right": 2})
    model = estimator(bank)
    model.fit(X, y if is_regressor(model) else labels(y, 3))
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert vars(again).keys() == vars(model).keys()
    score = "predict" if is_regressor(model) else "decision_function"
    np.testing.assert_array_equal(getattr(again, score)(X[:9]), getattr(model, score)(X[:9]))


def test_round_trip_keeps_graphs(tmp_path, rng):
    X = rng.normal(size=(120, 2))
    model = discriminative.LapMKLClassifier(KernelBank(Gaussian(width=1)), n_neighbors=4).fit(X, X[:, 0] > 0)
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert sparse.issparse(model.laplacian_)
    assert (again.laplacian_ != model.laplacian_).nnz == 0
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_round_trip_keeps_clipped_kernels(data, tmp_path):
    X, y = data
    kernel = np.cos(3.0 * X @ X.T)  # indefinite
    model = discriminative.UniformMKLClassifier("precomputed", indefinite="clip").fit(kernel, y > 0)
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.decision_function(kernel), model.decision_function(kernel))
    np.testing.assert_allclose(
        model.decision_function(kernel), model.combined_kernel(kernel) @ model.dual_coef_ + model.intercept_
    )


def test_round_trip_keeps_every_fitted_attribute(data, tmp_path):
    X, y = data
    model = BEMKLClassifier(
        KernelBank("paper", views="each"), max_iter=4, tol=0.0, intermediate_scale=1.0
    ).fit(pd.DataFrame(X, columns=list("abc")), y > 0)
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert vars(again).keys() == vars(model).keys()
    assert type(again.posterior_) is type(model.posterior_)
    assert again.outcome_ is model.outcome_ is Outcome.MAX_ITER
    for ours, theirs in zip(again.posterior_, model.posterior_, strict=True):
        assert type(ours) is type(theirs)
        if ours is None:
            assert theirs is None
            continue
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
    for name in ("kernel_weights_cov_", "elbo_history_", "kernel_names_", "feature_names_in_", "classes_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.get_params()["max_iter"] == 4


def test_posterior_as_start_survives(data, tmp_path):
    X, y = data
    first = BEMKLRegressor(KernelBank("rbf"), max_iter=3, tol=0.0).fit(X, y)
    second = BEMKLRegressor(KernelBank("rbf"), init=first.posterior_, max_iter=3, tol=0.0)
    save_model(second, tmp_path / "model.skops")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model.skops").fit(X, y).elbo_, second.fit(X, y).elbo_
    )


@pytest.mark.heavy
@pytest.mark.parametrize(
    "normalize", [None, "spherical", "trace", "center", ("center", "spherical", "trace")]
)
def test_every_kernel_and_normalization_survives(normalize, data, tmp_path):
    X, _ = data
    names = [name for name in PAIRWISE_NAMES if normalize is None or name not in ("additive_chi2", "sigmoid")]
    bank = KernelBank(
        ["paper", *names, *OWN_KERNELS, *GP_KERNELS], views="all+each", normalize=normalize
    ).fit(X)
    save_model(bank, tmp_path / "bank.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "bank.skops").row_stack(X[:5]), bank.row_stack(X[:5]))


def test_precomputed_stack_survives(data, tmp_path):
    X, y = data
    stack = KernelBank(["rbf", "linear"]).fit_transform(X)
    model = BEMKLRegressor("precomputed", kernel_names=["one", "two"], max_iter=3, tol=0.0).fit(stack, y)
    save_model(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model.skops").predict(stack[:4]), model.predict(stack[:4])
    )


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_survives_and_the_model_is_left_alone(outcome, tmp_path):
    model = make_pipeline(BEMKLClassifier(intermediate_scale=1.0))
    model[-1].outcome_ = (outcome, outcome)
    save_model(model, tmp_path / "model.skops")
    assert model[-1].outcome_[0] is outcome
    assert load_model(tmp_path / "model.skops")[-1].outcome_ == (outcome, outcome)


def test_generator_survives_with_its_state(tmp_path):
    generator = np.random.default_rng(3)
    generator.normal(size=5)
    save_model(BEMKLClassifier(random_state=generator, intermediate_scale=1.0), tmp_path / "model.skops")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model.skops").random_state.normal(size=7), generator.normal(size=7)
    )


def test_list_of_own_types_is_complete(data):
    def subclasses(cls):
        return {cls}.union(*map(subclasses, cls.__subclasses__()))

    kernels = {k for k in subclasses(Kernel) if k.__module__.startswith("bayesmkl.")} - {
        Kernel,
        ForeignKernel,
        ScaledKernel,
        MovedPolynomial,  # lives while another kernel is evaluated
    }
    gp_kernels = {
        k
        for k in subclasses(gp.Kernel)
        if k.__module__ == gp.__name__ and not getattr(k, "__abstractmethods__", None)
    }
    X, y = data
    states = [
        BEMKLClassifier(max_iter=2, tol=0.0, kernels=KernelBank("rbf"), intermediate_scale=1.0)
        .fit(X, y > 0)
        .posterior_,
        BEMKLRegressor(max_iter=2, tol=0.0, kernels=KernelBank("rbf")).fit(X, y).posterior_,
    ]
    factors = {type(value) for state in states for value in (state, *state) if hasattr(value, "_fields")}
    assert kernels | set(NORMALIZATIONS.values()) | factors | {
        BEMKLClassifier,
        BEMKLRegressor,
        KernelBank,
    } <= set(OWN_TYPES)
    assert gp_kernels - {gp.KernelOperator} <= set(GP_TYPES)
    assert all(isinstance(known, type) for known in OWN_TYPES + GP_TYPES)


def local_kernel():
    def kernel(X, Z):
        return X @ Z.T

    return kernel


def script_kernel():
    kernel = local_kernel()
    kernel.__qualname__, kernel.__module__ = "kernel", "__main__"
    return kernel


class Holder:
    """A class one level down."""

    class Inner:
        pass


@pytest.mark.parametrize(
    ("part", "place", "what"),
    [
        (KernelBank([Linear(), lambda X, Z: X @ Z.T]), r"model\.kernels\.kernels\[1\]", "a lambda"),
        (KernelBank(FromDistance(lambda x, z: 0.0)), r"model\.kernels\.kernels\.distance", "a lambda"),
        (KernelBank(local_kernel()), r"model\.kernels\.kernels", r"'local_kernel\.<locals>\.kernel'"),
        (KernelBank(script_kernel()), r"model\.kernels\.kernels", "'kernel' of a script or notebook"),
        (KernelBank(functools.partial(local_kernel(), Z=1)), r"kernels\.func", "inside another one"),
        (KernelBank(views={"a": [Holder.Inner]}), r"model\.kernels\.views\['a'\]\[0\]", r"'Holder\.Inner'"),
        (KernelBank(Holder.Inner()), r"model\.kernels\.kernels", "an object of the class"),
        (KernelBank(FromDistance(pd.DataFrame([[0.0]]))), r"kernels\.distance", "pandas DataFrame"),
    ],
)
def test_what_cannot_be_found_again_is_refused_by_name(part, place, what, tmp_path):
    target = tmp_path / "model.skops"
    target.write_text("an earlier model")
    with pytest.raises(ValueError, match=f"`model` cannot be saved: .*{place}.*{what}"):
        save_model(BEMKLClassifier(part, intermediate_scale=1.0), target)
    assert [p.name for p in tmp_path.iterdir()] == ["model.skops"]
    assert target.read_text() == "an earlier model"


def test_lambda_of_a_fitted_bank_in_a_pipeline_is_refused(data, tmp_path):
    X, y = data
    model = make_pipeline(BEMKLRegressor(KernelBank(lambda A, B: A @ B.T), max_iter=2, tol=0.0)).fit(X, y)
    with pytest.raises(ValueError, match=r"model\.steps\[0\]\[1\]\.kernels\.kernels is a lambda"):
        save_model(model, tmp_path / "model.skops")


def test_what_skops_cannot_keep_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`model` cannot be saved: skops fails"):
        save_model(
            BEMKLClassifier(random_state=io.StringIO(), intermediate_scale=1.0), tmp_path / "model.skops"
        )
    assert list(tmp_path.iterdir()) == []


def test_functions_load_only_when_trusted(data, tmp_path):
    X, _ = data
    bank = KernelBank(["linear", importable_kernel]).fit(X)
    name = f"{__name__}.importable_kernel"
    with pytest.raises(
        ValueError, match=rf"`model` .*not trusted.*save_model\(model, path, trusted=\['{name}'\]\)"
    ):
        save_model(bank, tmp_path / "bank.skops")
    assert list(tmp_path.iterdir()) == []
    save_model(bank, tmp_path / "bank.skops", trusted=[importable_kernel])
    with pytest.raises(ValueError, match=rf"`path` holds types that are not trusted.*{name}"):
        load_model(tmp_path / "bank.skops")
    for trusted in ([name], [importable_kernel]):
        again = load_model(tmp_path / "bank.skops", trusted=trusted)
        np.testing.assert_array_equal(again.row_stack(X), bank.row_stack(X))
    with pytest.raises(ValueError, match="`trusted` must be a list"):
        load_model(tmp_path / "bank.skops", trusted=name)
    with pytest.raises(ValueError, match="`trusted` must be a list"):
        save_model(bank, tmp_path / "bank.skops", trusted=name)


def test_nothing_untrusted_is_built(tmp_path):
    save_model(
        BEMKLClassifier(random_state=Trap(), intermediate_scale=1.0), tmp_path / "model.skops", trusted=[Trap]
    )
    Trap.built = False  # saving reads the file back
    with pytest.raises(ValueError, match=r"not trusted.*Trap"):
        load_model(tmp_path / "model.skops")
    assert not Trap.built
    load_model(tmp_path / "model.skops", trusted=[Trap])
    assert Trap.built


def saved_bytes(tmp_path):
    save_model(KernelBank("rbf").fit(np.eye(40)), tmp_path / "model.skops")
    return (tmp_path / "model.skops").read_bytes()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_file_is_refused(share, tmp_path):
    data = saved_bytes(tmp_path)
    (tmp_path / "model.skops").write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match=r"`path` is not a readable model file.*save the model again"):
        load_model(tmp_path / "model.skops")


def test_flipped_bit_is_noticed(tmp_path):
    data = bytearray(saved_bytes(tmp_path))
    data[data.index(b"NUMPY") + 400] ^= 1
    (tmp_path / "model.skops").write_bytes(data)
    with pytest.raises(ValueError, match="not a readable model file"):
        load_model(tmp_path / "model.skops")


def test_files_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "model.skops"
    path.write_bytes(b"pickle me" * 100)
    with pytest.raises(ValueError, match="not a readable model file"):
        load_model(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "a zip file")
    with pytest.raises(ValueError, match="not a readable model file"):
        load_model(path)
    path.write_bytes(skops.io.dumps(StandardScaler()))
    with pytest.raises(ValueError, match="must be a file that `save_model` wrote"):
        load_model(path)
    for version in (10, 99):
        path.write_bytes(
            skops.io.dumps({"format": "bayesmkl-model", "version": version, "package": "7.0", "model": None})
        )
        with pytest.raises(
            ValueError, match=f"layout {version}, written by bayesmkl 7.0, .* or make it again"
        ):
            load_model(path)


def test_missing_file_and_folder_are_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"`path` must be a model file; there is none at '.*nowhere.skops'"
    ):
        load_model(tmp_path / "nowhere.skops")
    with pytest.raises(ValueError, match="folder that does not exist"):
        save_model(Linear(), tmp_path / "nowhere" / "model.skops")
    with pytest.raises(ValueError, match="is a folder"):
        save_model(Linear(), tmp_path)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError])
def test_interrupted_writing_leaves_the_old_file_alone(interruption, tmp_path):
    target = tmp_path / "table.csv"
    target.write_text("old")

    def interrupted():
        with written_beside(target) as beside:
            beside.write_text("half of the n")
            raise interruption

    with pytest.raises(interruption):
        interrupted()
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]
    assert target.read_text() == "old"


def test_a_module_inside_a_model_is_named(tmp_path):
    model = KernelBank(Gaussian(width=1))
    model.memory_ = {"json": json}
    with pytest.raises(
        ValueError, match=r"model\.memory_\['json'\] is the module 'json', which no file keeps"
    ):
        save_model(model, tmp_path / "model.skops")
    assert not any(tmp_path.iterdir())
