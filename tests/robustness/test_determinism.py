"""The same seed gives the same numbers: in fresh processes, on more threads, in several processes.

Fits that are compared with those of a fresh process change nothing of this one, either.
"""

from __future__ import annotations

import importlib

import families
import numpy as np
import pytest
from fit_everything import OTHERS, are_on_all_threads, predictions_of
from fresh import N_SAMPLES, fresh_process
from global_state import unchanged
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from verdicts import assert_refused, quietly

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl._utils.threads import one_thread
from bayesmkl.bemkl import select_by_elbo
from bayesmkl.discriminative import LpMKLClassifier

pytestmark = [pytest.mark.family("determinism"), pytest.mark.heavy]

FAMILIES = sorted(families.families())


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    return fresh_process(tmp_path_factory)


@pytest.fixture(scope="module", autouse=True)
def _others_are_imported():
    for name in OTHERS:
        importlib.import_module(name)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_fresh_process_agrees_to_the_last_bit(fresh, name):
    """Strings hash differently there, so that sets of them are in another order, and nothing was fitted before."""
    with one_thread(), unchanged():
        here = predictions_of(name, N_SAMPLES)
    there = fresh.predictions[name]
    assert here.keys() == there.keys()
    for method, values in here.items():
        assert values.tobytes() == there[method].tobytes(), method


@pytest.mark.parametrize("name", [*filter(are_on_all_threads, FAMILIES)])
def test_threads_of_blas_change_only_rounding(fresh, name):
    for method, values in fresh.predictions[name].items():
        change = np.abs(values - fresh.on_all_threads[name][method]).max(initial=0.0)
        assert change <= 1e-9 * np.abs(values).max(initial=0.0), method


# ------------------------------------------------------------------------------------------------- random_state


def drawing_models():
    """Return functions of `random_state` that make a model which draws, by what it draws."""
    found = {
        "random starts": lambda seed: BEMKLClassifier(
            families.bank(),
            init="random",
            n_init=2,
            random_state=seed,
            **families.SHORT,
            intermediate_scale=1.0,
        ),
        "Gibbs": lambda seed: BEMKLClassifier(
            families.bank(), random_state=seed, **families.SHORT | families.CHAINS, intermediate_scale=1.0
        ),
    }
    own = {"CLMKLClassifier": {"n_clusters": 2}, "LDMKLClassifier": {"gate_targets": "cv"}}
    for name, cls in families.discriminative_classes().items():
        parameters = cls().get_params()
        if "random_state" in parameters:
            options = {
                key: value
                for key, value in (families.QUICK | {"cv": 2, "n_init": 2} | own.get(name, {})).items()
                if key in parameters
            }
            found[name] = lambda seed, cls=cls, options=options: cls(
                families.bank(), random_state=seed, **options
            )
    return found


def drawn(make, seed):
    """Return what a model predicts after a fit with this `random_state`."""
    X, model = families.data(), make(seed)
    y = families.target(X) if "Regressor" in type(model).__name__ else families.labels(X, 2)
    return families.predictions(families.fitted(lambda: model.fit(X, y)))


def same(one, other):
    return all(values.tobytes() == other[method].tobytes() for method, values in one.items())


SEEDS = {
    "int": lambda: 3,
    "np.int64": lambda: np.int64(3),
    "None": lambda: None,
    "Generator": lambda: np.random.default_rng(3),
    "RandomState": lambda: np.random.RandomState(3),
}


# One function reads the seed, whatever it is for.
SEEDED = [
    pytest.param(
        name, kind, marks=[pytest.mark.slow] * (kind not in ("int", "Generator") and name != "Gibbs")
    )
    for name in drawing_models()
    for kind in SEEDS
]


@pytest.mark.parametrize(("name", "kind"), SEEDED)
def test_random_state_decides_what_is_drawn(name, kind):
    """Nothing else does: not the generator of the process, which is seeded differently every time."""
    make, state = drawing_models()[name], np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(1)  # noqa: NPY002
        first = drawn(make, SEEDS[kind]())
        np.random.seed(2)  # noqa: NPY002
        assert same(first, drawn(make, SEEDS[kind]()))
    finally:
        np.random.set_state(state)  # noqa: NPY002
    if kind == "np.int64":
        assert same(first, drawn(make, 3))


@pytest.mark.parametrize("name", ["random starts", "Gibbs", "LMKLClassifier", "LDMKLClassifier"])
def test_a_generator_moves_on_from_fit_to_fit(name):
    make, generator = drawing_models()[name], np.random.default_rng(3)
    before = generator.bit_generator.state
    drawn(make, generator)
    assert generator.bit_generator.state != before


def landmarks(seed, selection):
    return (
        families.bank(landmarks=5, landmark_selection=selection, random_state=seed)
        .fit(families.data())
        .landmarks_
    )


@pytest.mark.parametrize("selection", ["kmeans", "random"])
def test_the_choice_of_landmarks_repeats(selection):
    """A generator would choose others at every fit, so that kernels could not be shared: it is refused."""
    for seed in (None, 3, np.int64(3)):
        assert landmarks(seed, selection).tobytes() == landmarks(seed, selection).tobytes()
    assert landmarks(3, selection).tobytes() == landmarks(np.int64(3), selection).tobytes()
    for seed in (np.random.default_rng(3), np.random.RandomState(3)):
        assert_refused(lambda seed=seed: landmarks(seed, selection), "`random_state`")


# ------------------------------------------------------------------------------------------------- processes


@pytest.mark.heavy
def test_two_processes_find_what_one_finds():
    X = families.data(60)
    y = families.labels(X, 3)
    search = make_pipeline(StandardScaler(), LpMKLClassifier(families.bank()))
    grid = {"lpmklclassifier__C": [0.1, 10.0], "lpmklclassifier__p_norm": [1.0, 2.0]}
    serial, parallel = (GridSearchCV(search, grid, cv=3, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    assert serial.best_params_ == parallel.best_params_
    for key in ("split0_test_score", "split1_test_score", "split2_test_score"):
        np.testing.assert_array_equal(serial.cv_results_[key], parallel.cv_results_[key])
    assert serial.decision_function(X).tobytes() == parallel.decision_function(X).tobytes()

    model = BEMKLClassifier(families.bank(), intermediate_scale=1.0, max_iter=30, tol=0.0)
    banks = {"kernels": [families.bank(), KernelBank("paper"), KernelBank("linear")]}
    serial, parallel = (quietly(lambda n=n: select_by_elbo(model, banks, X, y, n_jobs=n)) for n in (1, 2))
    assert serial.table["elbo"].tolist() == parallel.table["elbo"].tolist()
    assert serial.best_params_.keys() == parallel.best_params_.keys()
    one, other = (search.best_estimator_.predict_proba(X) for search in (serial, parallel))
    assert one.tobytes() == other.tobytes()
