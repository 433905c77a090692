"""Compare models on the same splits: scores, tests and a report. Results are kept, so an interrupted run continues.

python examples/comparing_models.py
"""

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import load_wdbc, load_wine
from bayesmkl.discriminative import SimpleMKLClassifier, UniformMKLClassifier
from bayesmkl.evaluation import compare_models
from bayesmkl.kernels import Gaussian, Linear

datasets = {"tumors": load_wdbc(return_X_y=True), "wines": load_wine(return_X_y=True)}
bank = KernelBank([Linear(), Gaussian(width=3), Gaussian(width=6)])
models = {
    "BEMKL": make_pipeline(StandardScaler(), BEMKLClassifier(bank, intermediate_scale=1.0)),
    "SimpleMKL": make_pipeline(StandardScaler(), SimpleMKLClassifier(bank)),
    "uniform weights": make_pipeline(StandardScaler(), UniformMKLClassifier(bank)),
    # A pair of a model and a grid: the grid is searched inside each training part.
    "tuned SVM": (
        make_pipeline(StandardScaler(), SVC()),
        {"svc__C": [0.1, 1, 10], "svc__gamma": [0.01, 0.1]},
    ),
}

if __name__ == "__main__":  # needed for several processes: n_jobs
    found = compare_models(
        models,
        datasets=datasets,
        cv=5,
        inner_cv=3,
        scoring=["accuracy", "mcc"],
        folder="comparison",
        random_state=0,
    )
    print(found)
    pairs = found.significance("accuracy", "corrected_t")
    print("\npairs that differ:", (pairs["better"] != "").sum(), "of", len(pairs))
    print("report:", found.to_html("comparison/report.html"))
