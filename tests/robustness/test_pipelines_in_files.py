"""What scikit-learn puts before and around a model: read back to the last bit, or refused when it is saved."""

from __future__ import annotations

import functools
import re

import families
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import FeatureAgglomeration
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
    make_column_transformer,
)
from sklearn.decomposition import PCA, FastICA, IncrementalPCA, KernelPCA, TruncatedSVD
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import (
    RFECV,
    GenericUnivariateSelect,
    SelectFromModel,
    SelectKBest,
    SequentialFeatureSelector,
    chi2,
    f_regression,
    mutual_info_classif,
    r_regression,
)
from sklearn.impute import IterativeImputer, KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import BayesianRidge, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
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
    for says in ("predict", "decision_function", "predict_proba"):
        if hasattr(model, says):
            expected, found = (
                families.fitted(lambda m=m, says=says: getattr(m, says)(rows)) for m in (model, again)
            )
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


@pytest.mark.heavy
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


# ------------------------------------------------------------------------------------ their settings and tables

WITH_GAPS = np.where(np.random.default_rng(2).random(X.shape) < 0.15, np.nan, X)
GAPS = pd.DataFrame(WITH_GAPS, columns=["a", "b", "c"])
TABLES_WITH_GAPS = {
    "array": WITH_GAPS,
    "single precision": WITH_GAPS.astype(np.float32),
    "frame": GAPS,
    "nullable": GAPS.convert_dtypes(),
    "Arrow": GAPS.convert_dtypes(dtype_backend="pyarrow"),
}
IMPUTERS = [
    *(SimpleImputer(strategy=strategy) for strategy in ("mean", "median", "most_frequent")),
    SimpleImputer(strategy="constant", fill_value=0.5),
    SimpleImputer(add_indicator=True, keep_empty_features=True),
    KNNImputer(n_neighbors=2, weights="distance", add_indicator=True),
    IterativeImputer(max_iter=2),
    IterativeImputer(
        BayesianRidge(), sample_posterior=True, max_iter=1, random_state=np.random.RandomState(3)
    ),
    make_union(SimpleImputer(), MissingIndicator(features="all")),
]


def crossed(steps, forms):
    """Pair every step with the first form, and every form with the first step; the other pairs are slow."""
    return [
        pytest.param(
            step,
            form,
            id=f"{' '.join(str(step).split())[:60]}-{form}",
            marks=[pytest.mark.slow] * bool(i and j),
        )
        for i, step in enumerate(steps)
        for j, form in enumerate(forms)
    ]


@pytest.mark.heavy
@pytest.mark.parametrize(("imputer", "table"), crossed(IMPUTERS, TABLES_WITH_GAPS))
def test_imputers_of_every_table(imputer, table, tmp_path):
    rows = TABLES_WITH_GAPS[table]
    for steps in ([imputer], [clone(imputer).set_output(transform="pandas"), StandardScaler()]):
        model = families.fitted(lambda s=steps: make_pipeline(*map(clone, s), classifier()).fit(rows, LABELS))
        assert_same_or_refused(model, rows, tmp_path / f"{len(steps)}.skops", refused=False)


WORD = np.array(["u", "v", "w"] * 8)
WORDS_BY_TYPE = {
    **{
        dtype: pd.Series(WORD).astype(dtype)
        for dtype in ("object", "str", "string", "string[pyarrow]", "category")
    },
    "missing": pd.Series(WORD).where(np.arange(24) % 5 > 0, None).astype(object),
    "bool": pd.Series(WORD == "u"),
    "int": pd.Series(np.arange(24) % 3),
    "Int64": pd.Series(np.arange(24) % 3, dtype="Int64"),
}
ENCODERS = [
    OneHotEncoder(sparse_output=False),
    OneHotEncoder(sparse_output=False, drop="first", handle_unknown="ignore", dtype=np.float32),
    OneHotEncoder(sparse_output=False, min_frequency=9, handle_unknown="infrequent_if_exist", dtype=int),
    OrdinalEncoder(encoded_missing_value=-1),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-2, encoded_missing_value=-1),
    TargetEncoder(cv=2),
]


@pytest.mark.heavy
@pytest.mark.parametrize(("encoder", "dtype"), crossed(ENCODERS, WORDS_BY_TYPE))
def test_encoders_of_every_type(encoder, dtype, tmp_path):
    rows = FRAME.assign(c=WORDS_BY_TYPE[dtype])
    steps = ColumnTransformer([("c", clone(encoder), TEXT)], remainder=StandardScaler())
    model = families.fitted(lambda: make_pipeline(steps, classifier()).fit(rows, LABELS))
    assert_same_or_refused(model, rows, tmp_path / "model.skops", refused=False)


NUMERIC = [np.number, [np.number], "number", np.floating, [np.float64, float], ["float64", np.inexact]]


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_columns_selected_by_types(dtype, tmp_path):
    steps = [
        (StandardScaler(), make_column_selector(dtype_include=dtype)),
        (
            OneHotEncoder(sparse_output=False),
            make_column_selector(dtype_include=[object, np.object_, "category"]),
        ),
    ]
    rows = FRAME.astype({"c": object})
    model = families.fitted(
        lambda: make_pipeline(make_column_transformer(*steps), classifier()).fit(rows, LABELS)
    )
    assert model[0].n_features_in_ == 3
    assert model[-1].n_features_in_ == 4
    assert_same_or_refused(model, rows, tmp_path / "model.skops", refused=False)


VARIANTS = [
    *(MinMaxScaler((0.5, 2), clip=True), RobustScaler(quantile_range=(10, 90), unit_variance=True)),
    *(
        PowerTransformer("box-cox", standardize=False),
        QuantileTransformer(n_quantiles=5, output_distribution="normal"),
    ),
    *(
        PolynomialFeatures((1, 2), interaction_only=True),
        KBinsDiscretizer(3, encode="ordinal", strategy="kmeans"),
    ),
    *(FunctionTransformer(np.log1p, np.expm1), FunctionTransformer(functools.partial(np.power, 2.0))),
    SelectKBest(functools.partial(mutual_info_classif, random_state=0), k=2),
    GenericUnivariateSelect(chi2, mode="k_best", param=2),
    SelectFromModel(LogisticRegression(), threshold="0.5*mean", max_features=2),
    *(
        RFECV(LogisticRegression(), cv=2),
        SequentialFeatureSelector(classifier(), cv=2, n_features_to_select=1),
    ),
    *(PCA(2, svd_solver="randomized", random_state=0), IncrementalPCA(2)),  # slices of what is in columns
    *(PCA(0.9), KernelPCA(2, kernel="rbf", fit_inverse_transform=True), FastICA(2, fun="exp")),
    *(FeatureAgglomeration(2, pooling_func=np.median), make_union(PCA(1), SelectKBest(k=1))),
]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "step", VARIANTS, ids=lambda step: " ".join(str(step).split()).partition("<")[0][:60]
)
def test_settings_of_transformers(step, tmp_path):
    model = families.fitted(lambda: make_pipeline(SimpleImputer(), clone(step), classifier()).fit(X, LABELS))
    assert_same_or_refused(model, X, tmp_path / "model.skops", refused=False)


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


@pytest.mark.heavy
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
