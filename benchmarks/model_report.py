"""How long does it take to write up the model of README's example, and how large is the page?

python benchmarks/model_report.py           the example
python benchmarks/model_report.py --fast    with few training and test samples
"""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from typing import Any

from _posteriors import quietly
from _report import begin, claim, finish, markdown_table
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bayesmkl import GPMKLClassifier, KernelBank
from bayesmkl.datasets import load_wdbc
from bayesmkl.evaluation import report_model
from bayesmkl.kernels import Gaussian
from bayesmkl.marginal import Marginal

GROUPS = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}


def main() -> None:
    options = begin(__doc__)
    X, y = load_wdbc(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    if options.fast:
        X_train, X_test, y_train, y_test = X_train[:40], X_test[:20], y_train[:40], y_test[:20]
    bank = KernelBank([Gaussian(width=1), Gaussian(width=4)], views=GROUPS)
    rows: list[dict[str, Any]] = []
    with threadpool_limits(1), quietly(), tempfile.TemporaryDirectory() as folder:
        inference: Any = Marginal(n_points=100, n_draws=100) if options.fast else "marginal"
        model = make_pipeline(StandardScaler(), GPMKLClassifier(bank, inference=inference))
        model.fit(X_train, y_train)
        for refits in (False, True):
            start = time.process_time()
            report = report_model(model, X_test, y_test, refits=refits, random_state=0)
            page = report.write_html(Path(folder) / "report.html")
            seconds = time.process_time() - start
            n_tables = len(re.findall("<table", page.read_text()))
            what = "with fits without each view" if refits else "as it is"
            size = page.stat().st_size / 1e6
            rows.append({"what": what, "seconds": seconds, "megabytes": size, "tables": n_tables})
    body = [[r["what"], f"{r['seconds']:.1f}", f"{r['megabytes']:.2f}", r["tables"]] for r in rows]
    table = markdown_table(["report", "seconds of a processor", "megabytes", "tables"], body)
    made = [
        claim("report of README's example: time", 5.0, rows[0]["seconds"], " s"),
        claim("report of README's example: size of the page", 3.0, rows[0]["megabytes"], " MB"),
    ]
    finish(options, "model_report", table, {"rows": rows, "claims": made})


if __name__ == "__main__":
    main()
