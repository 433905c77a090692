"""What scikit-learn puts before and around a model: read back to the last bit, or refused when it is saved."""

from __future__ import annotations

import re

import families
import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import SelectKBest, chi2, f_regression, mutual_info_classif, r_regression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.utils import all_estimators

from bayesmkl import KernelBank, load_model, save_model
from bayesmkl.discriminative import UniformMKLClassifier, UniformMKLRegressor

pytestmark = pytest.mark.family("pipelines in files")

X = np.abs(families.data(24))
LABELS, TARGET = families.labels(X, 2), families.target(X)
WORDS = np.array(["low high middle", "high low", "middle middle low"] * 8)
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 2] > 0.5, "u", "v")})


def classifier():
    return UniformMKLClassifier(KernelBank("linear"))


def regressor():
    return UniformMKLRegressor(KernelBank("linear"))


def doubled(values):
    return 2.0 * np.asarray(values)


def refusal(call):
    try:
        families.fitted(call)
    except ValueError as error:
        return str(error)
    return None


def assert_same_or_refused(model, rows, path, refused):
    """Save a fitted model and compare what is read back; a refused one leaves no file and says what to trust."""
    trusted, error = [], refusal(lambda: save_model(model, path))
    if error is not None:
        assert refused, error
        assert not path.exists()
        if "`model` cannot be saved: " in error:
            assert re.search(r"cannot be saved: (skops fails|model\.\S+ is the module)", error)
            return
        remedy = re.search(r"are not trusted.*save_model\(model, path, trusted=(\[.*?\])\)", error)
        trusted = re.findall(r"'([\w.]+)'", remedy[1])
        families.fitted(lambda: save_model(model, path, trusted=trusted))
        assert "`path` holds types that are not trusted" in refusal(lambda: load_model(path))
    again = families.fitted(lambda: load_model(path, trusted=trusted))
    expected, found = (families.fitted(lambda m=m: m.predict(rows)) for m in (model, again))
    np.testing.assert_array_equal(found, expected)


# ---------------------------------------------------------------------------------------------- transformers

TRANSFORMERS = dict(all_estimators(type_filter="transformer"))
LOGISTIC, RIDGE = LogisticRegression(), Ridge()
SETTINGS = {
    "ColumnTransformer": {"transformers": [("a", StandardScaler(), [0]), ("b", "passthrough", [1, 2])]},
    "DictVectorizer": {"sparse": False},
    "FeatureHasher": {"n_features": 16},
    "FeatureUnion": {"transformer_list": [("a", StandardScaler()), ("b", MinMaxScaler())]},
    "GaussianRandomProjection": {"n_components": 2},
    "HashingVectorizer": {"n_features": 16},
    "KBinsDiscretizer": {"encode": "onehot-dense"},
    "MiniBatchDictionaryLearning": {"max_iter": 2},
    "MiniBatchKMeans": {"n_clusters": 2, "n_init": 1, "max_iter": 1},
    "MiniBatchNMF": {"max_iter": 2},
    "MiniBatchSparsePCA": {"max_iter": 2},
    "MissingIndicator": {"features": "all"},
    "OneHotEncoder": {"sparse_output": False},
    "RFE": {"estimator": LOGISTIC},
    "RFECV": {"estimator": LOGISTIC, "cv": 2},
    "RandomTreesEmbedding": {"n_estimators": 2, "sparse_output": False},
    "SelectFdr": {"alpha": 1.0},
    "SelectFpr": {"alpha": 1.0},
    "SelectFromModel": {"estimator": LOGISTIC},
    "SelectFwe": {"alpha": 1.0},
    "SequentialFeatureSelector": {"estimator": LOGISTIC, "cv": 2},
    "SparseCoder": {"dictionary": np.eye(3)},
    "SparseRandomProjection": {"n_components": 2},
    "StackingClassifier": {"estimators": [("a", LOGISTIC)], "cv": 2, "stack_method": "decision_function"},
    "StackingRegressor": {"estimators": [("a", RIDGE)], "cv": 2},
    "VotingClassifier": {"estimators": [("a", LOGISTIC)], "voting": "soft", "flatten_transform": True},
    "VotingRegressor": {"estimators": [("a", RIDGE)]},
}
OF_NUMBERS = ("StackingRegressor", "VotingRegressor")
SPARSE = ("FeatureHasher", "HashingVectorizer", "CountVectorizer", "TfidfTransformer", "TfidfVectorizer")
ROWS = {
    "CountVectorizer": WORDS,
    "DictVectorizer": [{"a": a, "b": b} for a, b in X[:, :2]],
    "FeatureHasher": [{"a": a, "b": b} for a, b in X[:, :2]],
    "HashingVectorizer": WORDS,
    "KernelCenterer": X @ X.T,
    "TfidfVectorizer": WORDS,
}
NO_STEP = {  # of a pipeline that ends in a model
    **dict.fromkeys(("CCA", "PLSCanonical", "PLSRegression", "PLSSVD"), "gives the target too"),
    "IsotonicRegression": "gives one number per row, no table",
    "LabelBinarizer": "of targets",
    "LabelEncoder": "of targets",
    "MultiLabelBinarizer": "of targets",
    "PatchExtractor": "of pictures, several rows of each",
    "TSNE": "cannot transform new rows",
}
# Trees of rows or of decisions and splines: compiled code follows the positions in them without a look.
REFUSED = (
    "Birch", "BisectingKMeans", "Isomap", "KNeighborsTransformer", "LocallyLinearEmbedding",
    "RadiusNeighborsTransformer", "RandomTreesEmbedding", "SplineTransformer",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted(TRANSFORMERS.keys() - NO_STEP))
def test_pipeline_with_a_transformer(name, tmp_path):
    rows = ROWS.get(name, X)
    step = TRANSFORMERS[name](**SETTINGS.get(name, {}))
    steps = [step] if name not in SPARSE and "Neighbors" not in name else [step, TruncatedSVD(2)]
    last, y = (regressor(), TARGET) if name in OF_NUMBERS else (classifier(), LABELS)
    model = families.fitted(lambda: make_pipeline(*steps, last).fit(rows, y))
    assert_same_or_refused(model, rows, tmp_path / "model.skops", name in REFUSED)


def test_most_transformers_are_kept():
    assert len(TRANSFORMERS) > 70
    assert len(REFUSED) < len(TRANSFORMERS.keys() - NO_STEP) / 9


# ------------------------------------------------------------------------------- what is built around a model


def columns(*steps):
    return make_pipeline(ColumnTransformer(list(steps), remainder="drop"), classifier())


def filled(strategy, *steps):
    return make_pipeline(SimpleImputer(strategy=strategy), *steps)


NUMBERS, TEXT = ["a", "b"], ["c"]
AROUND = {
    "calibrated": CalibratedClassifierCV(classifier(), cv=2),
    "calibrated, isotonic": CalibratedClassifierCV(classifier(), cv=2, method="isotonic"),
    "search": GridSearchCV(classifier(), {"C": [1.0, 2.0]}, cv=2),
    "search of banks": GridSearchCV(classifier(), {"kernels": [KernelBank("linear"), KernelBank()]}, cv=2),
    "one-versus-rest": OneVsRestClassifier(classifier()),
    "codes": OutputCodeClassifier(classifier(), random_state=0),
    "vote": VotingClassifier([("a", classifier()), ("b", LOGISTIC)]),
    "stack": StackingClassifier([("a", classifier())], cv=2),
    "bag": BaggingClassifier(classifier(), n_estimators=2),
    "function of NumPy": make_pipeline(FunctionTransformer(np.log1p), classifier()),
    "best by chi-square": make_pipeline(SelectKBest(chi2, k=2), classifier()),
    "best by information": make_pipeline(SelectKBest(mutual_info_classif, k=2), classifier()),
}
AROUND_REGRESSORS = {
    "target transformed": TransformedTargetRegressor(regressor(), func=np.sinh, inverse_func=np.arcsinh),
    "target to ranks": TransformedTargetRegressor(
        regressor(), transformer=QuantileTransformer(n_quantiles=5)
    ),
    "best by F": make_pipeline(SelectKBest(f_regression, k=2), regressor()),
    "best by r": make_pipeline(SelectKBest(r_regression, k=2), regressor()),
}
OF_FRAMES = {
    "text to columns": columns(
        ("n", StandardScaler(), NUMBERS), ("t", OneHotEncoder(sparse_output=False), TEXT)
    ),
    "text to numbers": columns(("n", "passthrough", NUMBERS), ("t", OrdinalEncoder(), TEXT)),
    "imputed": columns(
        ("n", filled("median", StandardScaler()), NUMBERS),
        ("t", filled("most_frequent", OneHotEncoder(sparse_output=False)), TEXT),
    ),
    "columns by type": columns(("n", StandardScaler(), make_column_selector(dtype_include=float))),
}


@pytest.mark.parametrize("name", [*AROUND, *AROUND_REGRESSORS, *OF_FRAMES])
def test_model_inside_another(name, tmp_path):
    model = (AROUND | AROUND_REGRESSORS | OF_FRAMES)[name]
    rows = FRAME if name in OF_FRAMES else X
    y = TARGET if name in AROUND_REGRESSORS else LABELS
    families.fitted(lambda: model.fit(rows, y))
    assert_same_or_refused(model, rows, tmp_path / "model.skops", refused=False)


def test_several_outputs(tmp_path):
    model = MultiOutputClassifier(classifier()).fit(X, np.c_[LABELS, LABELS[::-1]])
    assert_same_or_refused(model, X, tmp_path / "model.skops", refused=False)


SCORED = {
    "search by a score": GridSearchCV(classifier(), {"C": [1.0, 2.0]}, cv=2, scoring="roc_auc"),
    "function of one's own": make_pipeline(FunctionTransformer(doubled), classifier()),
}


@pytest.mark.parametrize("name", SCORED)
def test_functions_are_trusted_by_name_alone(name, tmp_path):
    model = SCORED[name].fit(X, LABELS)
    with pytest.raises(ValueError, match="are not trusted"):
        save_model(model, tmp_path / "model.skops", trusted=["os.system"])
    assert_same_or_refused(model, X, tmp_path / "model.skops", refused=True)
