"""Fit a table of your own: which views matter, what is predicted, and how surely. Edit the block below.

python examples/own_table.py
"""

from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import GPMKLClassifier, KernelBank, load_model, save_model
from bayesmkl.datasets import load_wdbc
from bayesmkl.posterior import relevance, view_table

# Your table: one row for each sample. For a CSV file, write table = pd.read_csv("samples.csv", index_col=0).
table, diagnosis = load_wdbc(return_X_y=True, as_frame=True)
table["target"] = diagnosis
target = "target"  # the column to predict; for numbers take GPMKLRegressor below
# Your views: lists of columns that belong together.
views = {
    "mean": [name for name in table if name.startswith("mean")],
    "error": [name for name in table if name.endswith("error")],
    "worst": [name for name in table if name.startswith("worst")],
}

X, y = table.drop(columns=target), table[target]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
scaler = StandardScaler().set_output(transform="pandas")
model = make_pipeline(scaler, GPMKLClassifier(KernelBank("auto", views=views), random_state=0))
model.fit(X_train, y_train)

print("Effect of each view, part of the variance that it explains with 94 % interval, and evidence for it:")
columns = ["view", "effect", "explained", "explained_lower", "explained_upper", "verdict"]
print(view_table(model)[columns].round(2).to_string(index=False))
print("\nAre predictions worse without it?")
print(relevance(model)[["without", "elpd_diff", "se", "verdict"]].round(1).to_string(index=False))
print(f"\naccuracy on {len(X_test)} test samples: {model.score(X_test, y_test):.3f}")

save_model(model, "model.skops")
later = load_model("model.skops")
print("probabilities of the first test samples:", later.predict_proba(X_test)[:3].round(3).tolist())
