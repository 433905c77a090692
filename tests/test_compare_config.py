"""Configurations of comparisons: what they mean, and what is said about those with a mistake."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import (
    ShuffleSplit,
    StratifiedGroupKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from bayesmkl.bemkl import NUTS, BEMKLClassifier, Gamma, Storage
from bayesmkl.cli.compare_config import read_config
from bayesmkl.discriminative import GroupGating, LMKLClassifier
from bayesmkl.gp import GPMKLSurvival
from bayesmkl.kernels import Gaussian, KernelBank, Tanimoto

WINE = '[datasets.wine]\nname = "wine"\n'
SVM = '[models.SVM]\nestimator = "sklearn.svm.SVC"\n'


@pytest.fixture
def config(tmp_path):
    """Write a configuration, beside a table of patients, and read it."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 3)), columns=["radius", "texture", "mean area"])
    table["id"] = [f"row {i}" for i in range(40)]
    table["patient"] = np.repeat(np.arange(20), 2)
    table["diagnosis"] = np.where(table["radius"] > 0, "malignant", "benign")
    table.to_csv(tmp_path / "cells.csv", index=False)

    def read(text):
        (tmp_path / "study.toml").write_text(text, encoding="utf-8")
        return read_config(tmp_path / "study.toml")

    return read


def test_predictions_are_kept_unless_said_otherwise(config):
    assert config(WINE + SVM).study.keep_predictions is True
    for text, value in (("false", False), ("0.5", 0.5), ("8", 8)):
        assert config(WINE + SVM + f"[study]\nkeep_predictions = {text}").study.keep_predictions == value


def test_defaults_are_five_folds_and_standardization(config):
    study, n_jobs = config(WINE + SVM)
    assert (study.cv, study.inner_cv, study.scoring, study.random_state, n_jobs) == (5, 5, None, 0, None)
    model = study.models["SVM"].estimator
    assert isinstance(model, Pipeline)
    assert [name for name, _ in model.steps] == ["standardize", "model"]
    assert isinstance(model[-1], SVC)


def test_parameters_objects_and_grids_reach_the_estimator(config):
    study, _ = config(
        WINE
        + """
        [kernels.wide]
        kernels = [{type = "Gaussian", width = 8.0}]
        normalize = ["center", "spherical"]
        [models.local]
        estimator = "LMKLClassifier"
        standardize = false
        gating = {type = "GroupGating", n_groups = 3}
        parameters = {standardize = false, C = 3.0}
        grid = {kernels = ["paper", "wide"], gating = ["softmax", {type = "GroupGating", n_groups = 2}]}
        [models.bayes]
        estimator = "BEMKLClassifier"
        kernels = {kernels = "paper", views = {first = [0, 1], second = [2]}, normalize = "none"}
        kernel_prior = {type = "Gamma", concentration = 1e-10, rate = 1e10}
        inference = {type = "NUTS", n_draws = 200}
        grid = {storage = ["dense", {type = "Storage", backend = "numpy"}]}
        [models.votes]
        estimator = "sklearn.multiclass.OneVsRestClassifier"
        parameters = {estimator = {type = "sklearn.svm.SVC", C = 2.0}}
        """
    )
    local, grid = study.models["local"].estimator, study.models["local"].param_grid
    assert isinstance(local, LMKLClassifier)
    assert (local.standardize, local.C, local.gating) == (False, 3.0, GroupGating(3))
    assert grid["gating"] == ["softmax", GroupGating(2)]
    assert repr(grid["kernels"]) == repr(
        [KernelBank("paper"), KernelBank([Gaussian(width=8.0)], normalize=["center", "spherical"])]
    )
    bayes = study.models["bayes"].estimator[-1]
    assert isinstance(bayes, BEMKLClassifier)
    assert bayes.kernel_prior == Gamma(1e-10, 1e10)
    assert bayes.inference == NUTS(n_draws=200)
    assert study.models["bayes"].param_grid == {"model__storage": ["dense", Storage(backend="numpy")]}
    assert bayes.kernels.normalize is None
    assert bayes.kernels.views == {"first": [0, 1], "second": [2]}
    assert study.models["votes"].estimator[-1].estimator.C == 2.0


def test_kernels_and_normalizations_of_each_view(config):
    study, _ = config(
        WINE
        + """
        [kernels.mixed]
        views = {bits = [0, 1], genes = [2, 3]}
        kernels = {bits = {type = "Tanimoto"}, genes = ["linear", {type = "Gaussian", relative_width = 1.0}]}
        normalize = {bits = "none", genes = ["center", "spherical"]}
        [models.x]
        estimator = "UniformMKLClassifier"
        kernels = "mixed"
        standardize = false
        [models.product]
        estimator = "UniformMKLClassifier"
        [models.product.kernels]
        kernels = {all = {type = "Product", left = {type = "Gaussian"}, right = {type = "Linear"}}}
        [models.gated]
        estimator = "UniformMKLClassifier"
        [models.gated.kernels]
        kernels = {type = "Product", left = {type = "Linear"}, right = {type = "Gate", columns = [0, 3]}}
        """
    )
    expected = KernelBank(
        {"bits": Tanimoto(), "genes": ["linear", Gaussian(relative_width=1.0)]},
        {"bits": [0, 1], "genes": [2, 3]},
        {"bits": None, "genes": ["center", "spherical"]},
    )
    assert repr(study.models["x"].estimator.kernels) == repr(expected)
    X = np.abs(study.datasets["wine"]().X)
    assert study.models["x"].estimator.kernels.fit(X).kernel_views_ == ["bits", "genes", "genes"]
    product = study.models["product"].estimator[-1].kernels
    assert product.fit(X).kernel_names_ == ["gaussian(width=1) × linear · all"]
    gated = study.models["gated"].estimator[-1].kernels
    assert gated.fit(X).kernel_names_ == ["linear × gate(x0, x3) · all"]


def test_files_are_beside_the_configuration(config):
    study, _ = config(
        SVM
        + """
        [datasets.cells]
        file = "cells.csv"
        target = "diagnosis"
        drop = ["id"]
        group = "patient"
        [study]
        cv = {kind = "stratified-group", n_splits = 3}
        scoring = "f1_macro"
        random_state = 7
        """
    )
    data = study.datasets["cells"]()
    assert list(data.X.columns) == ["radius", "texture", "mean area"]
    assert set(data.y) == {"benign", "malignant"}
    np.testing.assert_array_equal(data.groups, np.repeat(np.arange(20), 2))
    assert study.scoring == ("f1_macro",)
    assert repr(study.cv) == repr(StratifiedGroupKFold(n_splits=3, shuffle=True, random_state=7))


def test_weights_of_samples_are_a_column(config):
    with pytest.raises(ValueError, match=r"cells\.weight`: `weight` must hold no negative weight; got -"):
        config(CELLS.replace('"id"', '"id", "mean area"') + 'weight = "radius"\n' + SVM)
    study, _ = config(CELLS + 'weight = "patient"\n' + SVM)
    data = study.datasets["cells"]()
    assert list(data.X.columns) == ["radius", "texture", "mean area"]
    np.testing.assert_array_equal(data.weights, np.repeat(np.arange(20.0), 2))


def test_several_targets_are_columns(config, tmp_path, lungs):
    several = TIMES.replace('"days"', '["days", "age"]').replace('event = "died"\n', "")
    data = config(several.replace('"id"', '"id", "lived"') + RIDGE).study.datasets["lungs"]()
    assert (list(data.X.columns), data.y.dtype) == (["size", "died"], float)
    np.testing.assert_array_equal(data.y[:, 0], np.arange(1.0, 13.0))
    table = pd.read_csv(tmp_path / "lungs.csv").assign(alive=lambda lungs: lungs["died"] == 0)
    table.to_csv(tmp_path / "lungs.csv", index=False)
    labels = several.replace('["days", "age"]', '["died", "alive"]').replace('"id"', '"id", "lived", "days"')
    data = config(labels + OVR).study.datasets["lungs"]()
    np.testing.assert_array_equal(data.y.T, [np.arange(12) % 2, 1 - np.arange(12) % 2])
    assert (list(data.X.columns), data.y.dtype) == (["age", "size"], int)
    mkl = OVR.replace('"sklearn.svm.SVC"', '"SimpleMKLClassifier", C = 2.0, kernels = "few"')
    study = config(labels + mkl + "[kernels.few]\nkernels = ['linear']\n").study
    inner = study.models["each"].estimator[-1].estimator
    assert repr(inner) == "SimpleMKLClassifier(C=2.0, kernels=KernelBank(kernels=['linear']))"
    with pytest.raises(ValueError, match=r"each\.estimator\.kernels` names the kernels 'fw'.*'few'"):
        config(labels + mkl.replace("few", "fw") + "[kernels.few]\nkernels = ['linear']\n")


def test_rows_in_the_order_of_time_have_splits_of_their_own(config):
    cv = config(WINE + SVM + '[study]\ncv = {kind = "time", n_splits = 3, gap = 2}').study.cv
    assert repr(cv) == repr(TimeSeriesSplit(3, gap=2))


def test_whole_numbers_may_be_classes_or_a_quantity(config):
    patients = CELLS.replace("diagnosis", "patient").replace('"id"', '"id", "diagnosis"')
    for models in (SVM, RIDGE):
        study, _ = config(patients + models)
        assert study.datasets["cells"]().y[3] == 1


TIMES = """
[datasets.lungs]
file = "lungs.csv"
target = "days"
event = "died"
drop = ["id"]
"""
OVR = '[models.each]\nestimator = "sklearn.multiclass.OneVsRestClassifier"\n'
OVR += 'parameters = {estimator = {type = "sklearn.svm.SVC"}}\n'
SURVIVAL = '[models.GP]\nestimator = "GPMKLSurvival"\nlikelihood = "weibull"\n'


@pytest.fixture
def lungs(tmp_path):
    """Write a table of times beside the configuration."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(12, 2)), columns=["age", "size"])
    table["id"] = [f"row {i}" for i in range(12)]
    table["days"], table["died"] = np.arange(1, 13), np.arange(12) % 2
    table["lived"] = table["died"].map({0: "yes", 1: "no"})
    table.to_csv(tmp_path / "lungs.csv", index=False)


def test_times_to_an_event_are_two_columns(config, lungs):
    study, _ = config(TIMES.replace('"id"', '"id", "lived"') + SURVIVAL + '[study]\nscoring = "concordance"')
    data = study.datasets["lungs"]()
    assert list(data.X.columns) == ["age", "size"]
    assert data.y.dtype == [("event", bool), ("time", float)]
    np.testing.assert_array_equal(data.y["event"], np.arange(12) % 2 == 1)
    np.testing.assert_array_equal(data.y["time"], np.arange(1.0, 13.0))
    assert isinstance(study.models["GP"].estimator[-1], GPMKLSurvival)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TIMES + SVM, "`datasets.lungs` is about times to an event, and the model 'SVM' is a classifier"),
        (TIMES.replace('event = "died"', "") + SURVIVAL, "`datasets.lungs` lacks `event`"),
        (
            TIMES.replace('"days"', '["days", "age"]') + SURVIVAL,
            "must name one column, the times, where `event`",
        ),
        (TIMES.replace("died", "dead") + SURVIVAL, "`datasets.lungs.event` names the column 'dead'"),
        (TIMES.replace("died", "lived") + SURVIVAL, "0 and 1, or of true and false.*got 'yes'"),
        (TIMES.replace("days", "lived") + SURVIVAL, "`target` must name a column of numbers"),
        (WINE + SURVIVAL, "`datasets.wine` lacks `event`"),
    ],
)
def test_mistakes_about_times_are_named(config, lungs, text, message):
    others = '"id", "lived"' if "lived" not in text else '"id"'
    with pytest.raises(ValueError, match=message):
        config(text.replace('"id"', others))


def test_other_splits_and_options_of_data_sets(config):
    study, _ = config(
        SVM + '[datasets.digits]\nname = "digits"\n'
        '[study]\ncv = {kind = "shuffle", n_splits = 3, test_size = 0.25}\ninner_cv = {kind = "kfold"}'
    )
    assert repr(study.cv) == repr(ShuffleSplit(3, test_size=0.25, random_state=0))
    assert study.inner_cv.shuffle
    assert study.datasets["digits"].options == {"name": "digits"}


CELLS = '[datasets.cells]\nfile = "cells.csv"\ntarget = "diagnosis"\ndrop = ["id"]\n'
KNN = '[models.knn]\nestimator = "sklearn.neighbors.KNeighborsClassifier"\n'
LINES = '[models.lines]\nestimator = "sklearn.svm.SVR"\n'
MISTAKES = {
    "no TOML": ("[study\n", "no TOML"),
    "table": (WINE + SVM + "[model.x]\n", "`model` is no key of a comparison", "did you mean 'models'?"),
    "no models": (WINE, "`models` holds nothing to compare"),
    "no data": (SVM, "`datasets` holds nothing to compare"),
    "no table": ("models = 3\n" + WINE, "`models` must be a table; got 3"),
    "study key": (WINE + SVM + "[study]\nscorng = 3", "`study.scorng`", "did you mean 'scoring'?"),
    "metric": (WINE + SVM + '[study]\nscoring = ["acuracy"]', "`study.scoring`", "'accuracy'"),
    "metric twice": (WINE + SVM + '[study]\nscoring = ["auc", "auc"]', "names a metric twice"),
    "no metric": (WINE + SVM + "[study]\nscoring = [1]", "`study.scoring` must be text"),
    "inner metric": (
        WINE + SVM + '[study]\ninner_scoring = "acuracy"',
        "`study.inner_scoring`",
        "'accuracy'",
    ),
    "folds": (WINE + SVM + "[study]\ncv = 1", "`study.cv` must be a whole number >= 2; got 1"),
    "folds as text": (WINE + SVM + '[study]\ncv = "5"', "`study.cv` must be a whole number; got '5'"),
    "seed": (WINE + SVM + "[study]\nrandom_state = true", "`study.random_state` must be a whole number"),
    "kind": (WINE + SVM + '[study]\ncv = {kind = "stratifed"}', "`study.cv.kind`", "'stratified'"),
    "no kind": (WINE + SVM + "[study]\ncv = {n_splits = 3}", "`study.cv` lacks `kind`"),
    "splits": (WINE + SVM + '[study]\ncv = {kind = "kfold", splits = 3}', "`study.cv.splits`", "'n_splits'"),
    "one split": (WINE + SVM + '[study]\ncv = {kind = "kfold", n_splits = 1}', "`study.cv`", "n_splits=1"),
    "unavailable": (
        WINE + SVM + '[study]\nunavailable = "NaN"',
        "`study.unavailable`",
        "did you mean 'nan'?",
    ),
    "kept": (
        WINE + SVM + '[study]\nkeep_predictions = "no"',
        "`study.keep_predictions` must be true, false or a",
    ),
    "data name": (SVM + '[datasets.x]\nname = "wyne"', "`datasets.x.name`", "(wdbc, iris, wine,"),
    "data key": (SVM + WINE + 'subset = "train"', "`datasets.wine.subset`"),
    "name and file": (SVM + WINE + 'file = "cells.csv"', "`datasets.wine` must have either `name`"),
    "no file": (
        SVM + '[datasets.x]\nfile = "cels.csv"\ntarget = "y"',
        "`datasets.x.file`",
        "there is no file",
    ),
    "file type": (SVM + '[datasets.x]\nfile = "x.xls"\ntarget = "y"', "`datasets.x.file`", ".parquet"),
    "no target": (SVM + '[datasets.x]\nfile = "cells.csv"', "`datasets.x` lacks `target`"),
    "target": (SVM + CELLS.replace("diagnosis", "diagnoses"), "`datasets.cells.target`", "'diagnosis'"),
    "drop": (SVM + CELLS.replace('"id"', '"ids"'), "`datasets.cells.drop`", "'ids'"),
    "group": (SVM + CELLS + 'group = "patent"', "`datasets.cells.group`", "did you mean 'patient'?"),
    "file key": (SVM + CELLS + 'groups = "patient"', "`datasets.cells.groups`", "did you mean 'group'?"),
    "text": (SVM + CELLS.replace('["id"]', "[]"), "`datasets.cells.file`", 'drop = ["id"]'),
    "nothing left": (
        SVM + CELLS.replace('"id"', '"id", "radius", "texture", "mean area", "patient"'),
        "`datasets.cells.drop` leaves no column",
    ),
    "torn groups": (
        SVM + CELLS + 'group = "patient"\n[study]\ncv = {kind = "kfold"}',
        "`datasets.cells.group` would be torn apart",
    ),
    "absent groups": (SVM + WINE + '[study]\ncv = {kind = "group"}', "'wine' has no `group`"),
    "no estimator": (WINE + "[models.x]\nC = 1.0", "`models.x` lacks `estimator`"),
    "estimator": (WINE + '[models.x]\nestimator = "SimplMKLClassifier"', "'SimpleMKLClassifier'"),
    "several targets": (WINE + '[models.x]\nestimator = "BEMKLMultitaskClassifier"', "'BEMKLClassifier'"),
    "bare name": (WINE + '[models.x]\nestimator = "SVC"', "`models.x.estimator`", '"sklearn.svm.SVC"'),
    "module": (WINE + '[models.x]\nestimator = "sklearn.svmm.SVC"', "did you mean 'sklearn.svm.SVC'?"),
    "foreign": (WINE + '[models.x]\nestimator = "os.system"', "no estimator of scikit-learn"),
    "parameter": (WINE + SVM + "gama = 1.0", "`models.SVM.gama`", "did you mean 'gamma'?"),
    "further": (WINE + SVM + "parameters = {gama = 1.0}", "`models.SVM.parameters.gama`", "'gamma'"),
    "grid": (WINE + SVM + "grid = {c = [1.0]}", "`models.SVM.grid.c`", "did you mean 'C'?"),
    "grid value": (WINE + SVM + "grid = {C = 1.0}", "`models.SVM.grid.C` must be a list"),
    "no kernels": (WINE + SVM + 'kernels = "paper"', "`models.SVM.kernels` is no"),
    "lacking": (WINE + '[models.x]\nestimator = "sklearn.multiclass.OneVsRestClassifier"', "'estimator'"),
    "transductive": (WINE + SVM + "transductive = true", "`models.SVM.transductive`", "unlabeled_label"),
    "weight": (SVM + CELLS + 'weight = "patent"', "`datasets.cells.weight`", "did you mean 'patient'?"),
    "weight of a class": (
        SVM + CELLS + 'weight = "diagnosis"',
        "`datasets.cells.weight`: `weight` must hold",
    ),
    "weight of a name": (SVM + WINE + 'weight = "alcohol"', "`datasets.wine.weight` is no key"),
    "no weights": (
        KNN
        + CELLS.replace("diagnosis", "patient").replace('"id"', '"id", "diagnosis"')
        + 'weight = "patient"',
        "`datasets.cells.weight`: `sample_weight`: model 'knn' (KNeighborsClassifier) takes no weights",
    ),
    "target twice": (
        SVM + CELLS.replace('"diagnosis"', '["radius", "radius"]'),
        "`datasets.cells.target`",
        "twice",
    ),
    "a target of text": (
        SVM + CELLS.replace('"diagnosis"', '["radius", "diagnosis"]'),
        "`datasets.cells.target`: `target` must name columns of numbers",
        "'diagnosis'",
    ),
    "a target among several": (SVM + CELLS.replace('"diagnosis"', '["radius", "tecture"]'), "'texture'?"),
    "no targets": (SVM + CELLS.replace('"diagnosis"', "[]"), "`datasets.cells.target` must be text"),
    "standardize": (WINE + SVM + 'standardize = "no"', "`models.SVM.standardize` must be true or false"),
}
MISTAKES |= {
    "one of several targets": (
        LINES + CELLS.replace('"diagnosis"', '["radius", "texture"]').replace('"id"', '"id", "diagnosis"'),
        "`datasets.cells.target`: `y` has several columns, and model 'lines' (SVR) predicts one",
    ),
    "several quantities": (
        SVM + CELLS.replace('"diagnosis"', '["radius", "texture"]').replace('"id"', '"id", "diagnosis"'),
        "`datasets.cells` is about a quantity, and the model 'SVM' is a classifier",
    ),
}
RIDGE = '[models.line]\nestimator = "sklearn.linear_model.Ridge"\n'
MISTAKES |= {
    "quantity": (
        SVM + '[datasets.x]\nname = "diabetes"',
        "`datasets.x` is about a quantity",
        "'SVM' is a class",
    ),
    "classes": (WINE + RIDGE, "`datasets.wine` is about classes", "'line' is a regressor"),
    "text classes": (CELLS + RIDGE, "`datasets.cells` is about classes", "'line' is a regressor"),
    "number": (
        SVM + CELLS.replace("diagnosis", "radius").replace('"id"', '"id", "diagnosis"'),
        "is about a quantity",
    ),
}
MKL = WINE + '[models.x]\nestimator = "SimpleMKLClassifier"\nkernels = '
LMKL = WINE + '[models.x]\nestimator = "LMKLClassifier"\n'
MISTAKES |= {
    "bank": (
        MKL + '"smal"\n[kernels.small]\nkernels = "paper"',
        "`models.x.kernels`",
        "did you mean 'small'?",
    ),
    "bank kind": (MKL + "3", "`models.x.kernels` must be the name of a table"),
    "bank key": (MKL + '{kernel = "paper"}', "`models.x.kernels.kernel`", "did you mean 'kernels'?"),
    "kernel": (MKL + '{kernels = [{type = "Gausian"}]}', "`models.x.kernels.kernels[0].type`", "'Gaussian'"),
    "kernel name": (MKL + '{kernels = ["rbff"]}', "`models.x.kernels.kernels`", "'rbff'"),
    "width": (MKL + '{kernels = [{type = "Gaussian", width = -1}]}', "`models.x.kernels.kernels`", "width"),
    "kernel key": (
        MKL + '{kernels = [{type = "Gaussian", widht = 1}]}',
        "[0].widht",
        "did you mean 'width'?",
    ),
    "normalize": (MKL + '{normalize = "sphere"}', "`models.x.kernels.normalize`", "spherical"),
    "views": (MKL + '{views = "every"}', "`models.x.kernels.views` must be one of 'all', 'each'"),
    "view": (MKL + "{views = {a = [0, 13]}}", "`models.x.kernels`", "data set 'wine'", "13"),
    "kernel of a view": (
        MKL + '{views = {a = [0]}, kernels = {a = ["rbff"]}}',
        "`kernels['a']` names 'rbff'",
    ),
    "kernel object of a view": (
        MKL + '{views = {a = [0]}, kernels = {a = {type = "Gausian"}}}',
        "`models.x.kernels.kernels.a.type`",
        "'Gaussian'",
    ),
    "view without kernels": (
        MKL + '{views = {a = [0], b = [1]}, kernels = {a = "rbf"}}',
        "`models.x.kernels`",
        "data set 'wine'",
        "got none for 'b'",
    ),
    "kernels without a view": (MKL + '{kernels = {a = "rbf"}}', "`models.x.kernels`", "got one for 'a'"),
    "normalization of no view": (
        MKL + '{views = {a = [0]}, normalize = {b = "none"}}',
        "`models.x.kernels`",
        "got one for 'b'",
    ),
    "gates": (LMKL + "gate_columns = ['hour']", "`models.x.gate_columns`", "data set 'wine'", "'hour'"),
    "table": (MKL + '"small"\n[kernels]\nsmall = 3', "`kernels.small` must be a table; got 3"),
}


@pytest.mark.heavy
@pytest.mark.parametrize("text_and_parts", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named_with_file_key_and_remedy(config, tmp_path, text_and_parts):
    text, *parts = text_and_parts
    with pytest.raises((ValueError, OSError)) as caught:
        config(text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'study.toml'}: ")
    for part in parts:
        assert part in message


def test_a_configuration_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no configuration file .*nothing\.toml"):
        read_config(tmp_path / "nothing.toml")


def test_missing_labels_are_refused(config, tmp_path):
    table = pd.read_csv(tmp_path / "cells.csv")
    table.loc[[1, 5], "diagnosis"] = None
    table.to_csv(tmp_path / "cells.csv", index=False)
    with pytest.raises(ValueError, match=r"`datasets\.cells\.target`.*empty in 2 of 40 rows"):
        config(SVM + CELLS)
