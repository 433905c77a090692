"""The pages of a comparison and of a model: right, complete, safe against what is in them, alive in a browser."""

from __future__ import annotations

import base64
import re
import time
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from headless_browser import Browser, find_browser

from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.evaluation import concordance_index, evaluate_classifier, report_model
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.page import Printed, Rows, html, markdown, number
from bayesmkl.evaluation.report import write_report
from bayesmkl.gp import Design, GPMKLOrdinalClassifier, GPMKLSurvival, Marginal
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.posterior import contributions, summary, view_table

EVIL = "<script>document.title='evil'</script>"
MODELS = ["plain", EVIL, 'a "quoted" & <b>bold</b> name', "fails"]
DATASETS = ["one", "<img src=x onerror=\"document.title='evil'\">", "three"]
ERROR = "ValueError: `X` has <i>no</i> rows & that's it"
N_SPLITS = 4
VOID = {"meta", "img", "br", "link"}


def make_cells(models, datasets, n_splits, rng):
    """Scores with a known order: later models are better; the last fails on two splits of the first data set."""
    rows = []
    for d, dataset in enumerate(datasets):
        for m, model in enumerate(models):
            for split in range(n_splits):
                failed = model == "fails" and d == 0 and split in (1, 3)
                rows.append(
                    {
                        "dataset": dataset,
                        "model": model,
                        "split": split,
                        "n_samples": 100 + d,
                        "n_train": 75 + d,
                        "n_test": 25,
                        "seed": 1000 * m + split,
                        "fit_seconds": float([9.0, 10.5, 100.25, 0.5][m % 4] + 0.01 * split),
                        "predict_seconds": 0.01,
                        "peak_memory_mb": 12.0,
                        "support_fraction": np.nan if m == 0 else 0.5,
                        "n_active_kernels": 3.0,
                        "converged": float(split != 0),
                        "best_params": '{"C": 10}' if m == 2 else "",
                        "error": ERROR if failed else "",
                        "note": "ConvergenceWarning: slow <&>" if m == 1 else "",
                        "accuracy": np.nan if failed else 0.5 + 0.1 * m + 0.02 * rng.random(),
                        "log_loss": np.nan if failed or m == 2 else 0.1 + 0.2 * m + 0.1 * rng.random(),
                    }
                )
    return pd.DataFrame(rows)


def make_comparison(models, datasets, n_splits, rng):
    cells = make_cells(models, datasets, n_splits, rng)
    about = {
        "metrics": {"accuracy": True, "log_loss": False},
        "random_state": 17,
        "cv": "StratifiedKFold(n_splits=4)",
        "models": {name: f"Estimator({name!r})" for name in models},
        "datasets": {name: {"n_samples": 100, "source": "fetched", "n_kernels": None} for name in datasets},
        "environment": {"python": "3.11.2", "platform": "Linux <64>"},
        "started": "2026-11-21T20:00:00+00:00",
        "seconds": 61.25,
        "config": "[study]  # </pre><script>",
    }
    return Comparison(cells, about)


class Page(HTMLParser):
    """All elements, and the tables by their id: rows of (text, whether it is bold)."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.tables, self._open, self.scripts = [], {}, [], []
        self.words = ""
        self._table = self._row = None
        self.feed(text)
        self.close()

    def handle_starttag(self, name, attributes):
        attributes = dict(attributes)
        self.elements.append((name, attributes))
        if name not in VOID:
            self._open.append(name)
        if name == "table":
            self._table = self.tables.setdefault(attributes.get("id", f"table {len(self.tables)}"), [])
        elif name == "tr":
            self._row = []
            self._table.append(self._row)
        elif name in ("th", "td"):
            self._row.append(["", False])
        elif name == "b":
            self._row[-1][1] = True

    def handle_endtag(self, name):
        assert self._open.pop() == name, f"</{name}> closes another element"

    def handle_data(self, text):
        if "script" in self._open or "style" in self._open:
            if self._open[-1] == "script":
                self.scripts.append(text)
            return
        self.words += text
        if "td" in self._open or "th" in self._open:
            self._row[-1][0] += text

    def close(self):
        super().close()
        assert not self._open

    def rows(self, identity):
        """Text of the rows of a table, without its head."""
        return [[text for text, _ in row] for row in self.tables[identity][1:]]


@pytest.fixture(scope="module")
def comparison():
    return make_comparison(MODELS, DATASETS, N_SPLITS, np.random.default_rng(0))


@pytest.fixture(scope="module")
def path(comparison, tmp_path_factory):
    return write_report(comparison, tmp_path_factory.mktemp("report") / "report.html", "Title & <more>")


@pytest.fixture(scope="module")
def text(path):
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


@pytest.fixture(scope="module")
def pages(page, comparison, tmp_path_factory):
    """The page of the first metric, which is written without being asked for, and that of the other one."""
    other = write_report(comparison, tmp_path_factory.mktemp("other") / "report.html", metrics=["log_loss"])
    return {"accuracy": page, "log_loss": Page(other.read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def small():
    return make_comparison(["plain", "other"], ["one"], 3, np.random.default_rng(1))


# ------------------------------------------------------------------------------------------------------ markup


def test_text_is_escaped():
    frame = pd.DataFrame({"<a>": ["<b> & \"'"], "n": [0.123456], "m": ["1 ± 2 *"]}, dtype=object)
    made = html(Rows(frame, 't"&'))
    assert '<th scope="row">&lt;b&gt; &amp; &quot;&#x27;</th>' in made
    assert '<td class="number">0.123</td><td class="number">1 ± 2 *</td>' in made
    assert 'aria-label="t&quot;&amp;"' in made
    assert 'id="t--"' in made
    assert html("<p>") == "<p>&lt;p&gt;</p>"


# ------------------------------------------------------------------------------------------------------ the page


@pytest.mark.heavy
def test_page_needs_nothing_else(text, page):
    for name, attributes in page.elements:
        for key in ("src", "href", "action", "data", "srcset", "poster", "background"):
            target = attributes.get(key, "#")
            assert target.startswith(("#", "data:image/svg+xml;base64,")), (name, target[:80])
        assert name not in ("link", "iframe", "object", "embed", "base")
    readable = re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)
    for word in ("http:", "https:", "//cdn", "@import", "url("):
        assert word not in readable


def test_links_inside_the_page_lead_somewhere(page):
    identities = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identities) == len(set(identities))
    targets = {attributes["href"] for name, attributes in page.elements if name == "a"}
    assert {"#scores", "#failures", "#ranks", "#differences", "#plots", "#environment"} <= targets
    assert targets <= {f"#{identity}" for identity in identities}


def test_pictures_are_drawings_without_scripts_or_links(page):
    pictures = [attributes for name, attributes in page.elements if name == "img"]
    assert len(pictures) == 2
    for attributes in pictures:
        assert attributes["alt"]
        drawing = ET.fromstring(base64.b64decode(attributes["src"].partition(",")[2]))
        for element in drawing.iter():
            assert element.tag.rpartition("}")[2] not in ("script", "foreignObject")
            links = [v for key, v in element.attrib.items() if key.rpartition("}")[2] == "href"]
            assert all(link.startswith(("#", "data:")) for link in links)


def test_no_script_may_run(page):
    assert page.scripts == []
    (policy,) = (a["content"] for n, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]


def test_names_of_all_kinds_come_out_as_they_went_in(page, text):
    assert [row[0] for row in page.rows("scores-accuracy")] == MODELS
    assert [head for head, _ in page.tables["scores-accuracy"][0]] == ["model", *DATASETS]
    assert EVIL not in text
    assert "<b>bold" not in text
    assert "[study]  # </pre><script>" in page.words
    assert "Title & <more>" in page.words


def test_scores_are_means_and_deviations_over_splits(page, comparison):
    rows = {row[0][0]: row[1:] for row in page.tables["scores-accuracy"][1:]}
    for model in MODELS[:3]:
        for (shown, _), dataset in zip(rows[model], DATASETS, strict=False):
            scores = comparison.scores("accuracy", dataset)[model].to_numpy()
            assert shown.removesuffix(" *") == f"{scores.mean():.3f} ± {scores.std(ddof=1):.3f}"


def test_best_is_the_best_of_those_that_never_failed(page):
    marked = {
        identity: [
            [row[0] for row in page.rows(identity) if row[column].endswith("*")] for column in (1, 2, 3)
        ]
        for identity in ("scores-accuracy", "scores-log-loss")
    }
    assert marked["scores-accuracy"] == [[MODELS[2]], ["fails"], ["fails"]]  # it fails on the first data set
    assert marked["scores-log-loss"] == [["plain"]] * 3  # the lowest


def test_cells_that_lack_scores_say_so(page):
    rows = {row[0]: row[1:] for row in page.rows("scores-accuracy")}
    assert re.fullmatch(r"0\.8\d\d ± 0\.\d\d\d \(2 of 4\)", rows["fails"][0])
    assert {row[0]: row[1:] for row in page.rows("scores-log-loss")}[MODELS[2]] == ["–"] * 3
    assert page.rows("errors") == [["fails", "one", "1, 3", ERROR]]
    assert page.rows("notes")[0] == [EVIL, "one", "0, 1, 2, 3", "ConvergenceWarning: slow <&>"]
    assert "2 of 48 fits failed" in page.words


@pytest.mark.heavy
def test_ranks_are_those_of_the_comparison(page, pages, comparison):
    for metric in ("accuracy", "log_loss"):
        ranks = comparison.ranks(metric)
        shown = pages[metric].tables[f"ranks-{metric.replace('_', '-')}"][1:]
        assert [row[0][0] for row in shown] == list(ranks.index)
        for row, expected in zip(shown, ranks.to_dict("records"), strict=True):
            mean = expected["mean_rank"]
            counts = [str(expected[name]) for name in ("times_best", "times_worst")]
            written = [number(mean), *counts, expected["note"]]
            assert [text for text, _ in row[1:]] == written
    assert [row[:2] for row in page.rows("ranks-accuracy")][:3] == [
        [MODELS[2], "1.000"],
        [EVIL, "2.000"],
        ["plain", "3.000"],
    ]
    assert "Friedman's test that 3 models rank alike over 3 data sets: χ² = 6.000, p = 0.050" in page.words


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
def test_pairs_are_those_of_the_comparison(pages, comparison, metric):
    pairs, name = comparison.significance(metric, "corrected_t"), metric.replace("_", "-")
    page = pages[metric]
    shown = page.tables[f"pairs-{name}"][1:]
    assert len(shown) == len(pairs) == 18
    for row, expected in zip(shown, pairs.to_dict("records"), strict=True):
        assert [text for text, _ in row[:3]] == [expected[name] for name in ("dataset", "first", "second")]
        names = ("difference", "lower", "upper", "p_value", "p_adjusted")
        assert [text for text, _ in row[3:8]] == [number(expected[name]) for name in names]
        assert row[8][0] == expected["better"]
    assert "corrected resampled t-test" in page.words


def test_costs_are_means_over_splits(page):
    row = dict(zip([text for text, _ in page.tables["costs"][0]], page.rows("costs")[0], strict=True))
    assert [row[name] for name in ("fit seconds", "converged", "support fraction", "active kernels")] == [
        "9.015",
        "0.750",
        "–",
        "3.000",
    ]


# ------------------------------------------------------------------------------------------------------ writing


@pytest.mark.heavy
def test_one_data_set_has_no_ranks_and_the_same_page_every_time(small, tmp_path):
    first, second = (write_report(small, tmp_path / name) for name in ("a.html", "b.html"))
    assert first.read_bytes() == second.read_bytes()
    page = Page(first.read_text(encoding="utf-8"))
    assert "Ranks are means over data sets, and this comparison has one." in page.words
    assert [row[0][0] for row in page.tables["pairs-accuracy"][1:]] == ["one"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]


@pytest.mark.heavy
def test_what_cannot_be_tested_is_explained(rng, tmp_path):
    lonely = make_comparison(["plain"], ["one"], 1, rng)
    page = Page(write_report(lonely, tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "two or more different models" in page.words
    assert page.rows("scores-accuracy")[0][1] == f"{lonely.cells['accuracy'][0]:.3f} *"


def test_a_comparison_of_failures_only_has_a_page(rng, tmp_path):
    failed = make_comparison(["plain", "other"], ["one"], 2, rng)
    failed.cells["error"] = ERROR
    failed.cells[["accuracy", "log_loss", "fit_seconds", "support_fraction"]] = np.nan
    page = Page(write_report(failed, tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.rows("scores-accuracy") == [["plain", "failed"], ["other", "failed"]]
    assert "4 of 4 fits failed" in page.words
    assert not page.rows("costs")


def test_a_page_that_cannot_be_made_leaves_the_old_one(small, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr("bayesmkl.evaluation.page.page", lambda *_: "half \udcff a page")  # cannot be encoded
    with pytest.raises(UnicodeEncodeError):
        write_report(small, path)
    assert [(p.name, p.read_text(encoding="utf-8")) for p in tmp_path.iterdir()] == [("report.html", "old")]


def test_unknown_metric_is_refused(small, tmp_path):
    with pytest.raises(ValueError, match=r"`metric` must be one of \['accuracy', 'log_loss'\]; got 'auc'"):
        write_report(small, tmp_path / "report.html", metrics=["auc"])
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------------ browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    executable = find_browser()
    if executable is None:
        pytest.skip("no Chromium on this machine: whether the page renders and sorts was not tested")
    with Browser(executable, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("width", [1280, 390])
def test_page_renders_without_complaints_at_any_width(browser, path, width):
    browser.requests.clear()
    browser.open(path, width)
    assert browser.evaluate("document.title") == "Title & <more>"
    assert browser.evaluate("Array.from(document.images).every((image) => image.naturalWidth > 100)")
    assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    hidden = "Array.from(document.querySelectorAll('.scroll')).filter((box) => box.scrollWidth > box.clientWidth + 1)"
    assert browser.evaluate(f"{hidden}.every((box) => getComputedStyle(box).overflowX === 'auto')")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []


EVIL = "<script>document.title='evil'</script>"
FEW = Marginal(n_points=120, n_draws=100)
rng = np.random.default_rng(3)
X = pd.DataFrame(rng.normal(size=(70, 3)), columns=["age", EVIL, "dose|mg"])
SCORE = 1.5 * X["age"].to_numpy() + 0.5 * rng.normal(size=70)
Y = np.where(SCORE > 0, "ill", "well")
VIEWS = {"person": ["age"], EVIL: [EVIL, "dose|mg"]}
BANK = KernelBank([Gaussian(width=1.5), Linear()], views=VIEWS, normalize="center")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def model():
    return GPMKLClassifier(BANK, inference=FEW).fit(X[:50], Y[:50])


@pytest.fixture(scope="module")
def report(model):
    return report_model(model, X=X[50:], y=Y[50:], title=f"Cells {EVIL}", random_state=0)


@pytest.fixture(scope="module")
def model_page(report, tmp_path_factory):
    return report.write_html(tmp_path_factory.mktemp("page") / "report.html")


def rows_of(report, part, label):
    return next(b.frame for b in report.parts[part] if isinstance(b, Rows) and b.label == label)


@pytest.mark.heavy
def test_views_are_those_of_the_table(report, model):
    found, expected = rows_of(report, "Views", "effects of views"), view_table(model)
    assert found["view"].tolist() == expected["view"].tolist()
    assert set(found["view"]) == {"person", EVIL, "views together", "all views", "not explained"}
    np.testing.assert_allclose(found["explained"], expected["explained"])
    sentences = summary(model).sentences
    assert len(sentences) > 3
    assert report.parts["Summary"][0][:-1] == sentences


def test_parts_of_samples_sum_to_scores(report, model):
    frame = rows_of(report, "Samples", "parts")
    np.testing.assert_allclose(frame["score"], model.predict_latent(X[50:]), atol=1e-10)
    parts = frame[["person", EVIL, "views together", "intercept"]]
    values = parts.map(lambda text: float(text.rstrip("?"))).to_numpy()
    np.testing.assert_allclose(values.sum(axis=1), frame["score"], atol=0.02)  # two decimals each
    found = contributions(model, X[50:], random_state=1)
    low, high = found["interval"].sel(part="person").values
    doubtful = frame["person"].str.endswith("?").to_numpy()
    clear = np.minimum(np.abs(low), np.abs(high)) > 0.2 * (high - low)  # other draws
    np.testing.assert_array_equal(doubtful[clear], ((low < 0) & (high > 0))[clear])
    assert frame["sample"].tolist() == [str(i) for i in range(50, 70)]
    assert frame["target"].tolist() == list(Y[50:])
    assert frame["prediction"].tolist() == model.predict(X[50:]).tolist()


def test_metrics_are_those_of_held_out_samples(report, model):
    facts = next(block for block in report.parts["Predictions"] if isinstance(block, dict))
    for name, value in evaluate_classifier(model, X[50:], Y[50:]).items():
        assert float(facts[name]) == pytest.approx(value, abs=5e-4)


def test_markdown_is_one_table_per_table(report, tmp_path):
    text = report.write_markdown(tmp_path / "report.md").read_text()
    assert text == f"{report}\n"
    assert EVIL not in text
    assert "dose\\|mg" in text
    tables = re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE)
    blocks = [block for part in report.parts.values() for block in part if isinstance(block, Rows)]
    assert len(tables) == len(blocks)
    for table, block in zip(tables, blocks, strict=True):
        lines = table.strip().split("\n")
        assert len(lines) == len(block.frame) + 2
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {block.frame.shape[1] + 1}
    fences = markdown(Printed(["```", "text"])).split("\n")
    assert fences[0] == "````text"
    assert fences[-1] == "````"
    assert markdown(["a * b"]) == "- a \\* b"


def test_names_are_text(model_page):
    text = model_page.read_text()
    assert EVIL not in text
    assert "<script" not in text
    assert model_page.stat().st_size < 1_000_000


@pytest.mark.heavy
@pytest.mark.skipif(find_browser() is None, reason="needs Chromium")
def test_page_in_a_browser(model_page, tmp_path):
    with Browser(find_browser(), tmp_path / "profile") as browser:
        browser.open(model_page, 400, 800)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 400
        browser.resize(1200, 900)
        assert browser.evaluate("document.title") == f"Cells {EVIL}"
        browser.click("nav a[href='#checks']")
        until = time.monotonic() + 10.0  # a busy machine follows links late
        while browser.evaluate("location.hash") != "#checks":
            assert time.monotonic() < until
            time.sleep(0.05)
        browser.print_to(tmp_path / "page.pdf")
        assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
        assert browser.complaints == []
        assert all(url.startswith(("file:", "data:")) for url in browser.requests)


def times():
    found = np.empty(70, dtype=[("event", bool), ("time", float)])
    found["event"], found["time"] = np.arange(70) % 4 > 0, np.exp(SCORE)
    return found


NAMED = X.set_axis(["age", "b", "c"], axis=1)
PLAIN = KernelBank([Linear()], views={"score": ["age"], "rest": ["b"]})
OTHERS = {
    "numbers": (lambda: BEMKLRegressor(PLAIN), SCORE, "rmse"),
    "classes": (
        lambda: BEMKLClassifier(PLAIN, intermediate_scale=1.0),
        np.digitize(SCORE, [-1, 1]),
        "log loss",
    ),
    "targets": (lambda: BEMKLRegressor(PLAIN), np.column_stack([SCORE, NAMED["b"]]), None),
    "counts": (
        lambda: GPMKLRegressor(
            PLAIN, likelihood="poisson", design=Design(covariate_columns="c"), inference=FEW
        ),
        np.round(np.exp(SCORE)),
        "rmse",
    ),
    "grades": (lambda: GPMKLOrdinalClassifier(PLAIN, inference=FEW), np.digitize(SCORE, [-1, 1]), "rps"),
    "times": (lambda: GPMKLSurvival(PLAIN, inference=FEW), times(), "concordance"),
}


@pytest.mark.heavy
@pytest.mark.parametrize("kind", OTHERS)
def test_every_outcome_is_written_up(kind, undrawn):
    make, y, metric = OTHERS[kind]
    model = make().fit(NAMED[:50], y[:50])
    report = report_model(model, X=NAMED[50:], y=y[50:], random_state=0)
    text = str(report)
    assert f"- {metric}: " in text or metric is None
    assert ("### Covariates and groups" in text) == (kind == "counts")
    if kind == "times":
        expected = concordance_index(y[50:], model.predict(NAMED[50:]))
        assert float(re.search(r"- concordance: (\S+)", text)[1]) == pytest.approx(expected, abs=5e-4)
    assert ("Survival of samples of low, middle and high risk, with 94 % bands" in text) == (kind == "times")
    frame = rows_of(report, "Samples", "parts")
    assert len(frame) == 20
    assert "score (part)" in frame
    assert "nan" not in text.lower().replace("nanometer", "")


@pytest.mark.heavy
def test_without_new_samples_those_of_training_are_judged(model, undrawn):
    assert "No held-out samples were given" in str(report_model(model, random_state=0))
    stack = X[["age"]].to_numpy() @ X[["age"]].to_numpy().T
    given = GPMKLRegressor("precomputed", inference=FEW).fit(stack, SCORE)
    assert list(report_model(given).parts) == ["Summary", "Predictions", "Views", "Checks", "Appendix"]
    forgotten = BEMKLRegressor("precomputed").fit(stack, SCORE)
    with pytest.raises(ValueError, match="`kernels`"):
        report_model(forgotten)
    shown = rows_of(report_model(forgotten, kernels=stack), "Views", "effects of views")
    np.testing.assert_allclose(shown["explained"].iloc[1:].sum(), 1.0)


def test_training_samples_are_not_judged(model, report):
    told = "10 of the 30 samples are training samples. They are not judged."
    mixed = report_model(model, X=X[40:], y=Y[40:], random_state=0)
    assert mixed.parts["Predictions"][:2] == [told, report.parts["Predictions"][0]]
    seen = report_model(model, X=X[:50], y=Y[:50]).parts["Predictions"]
    assert seen[0].startswith("50 of the 50 samples are training samples")
    assert seen[1].startswith("No held-out samples were given")


def test_ids_of_the_page_differ(model_page):
    page = Page(model_page.read_text())
    identities = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identities) == len(set(identities))


def test_long_tables_are_folded_in_the_appendix(tmp_path):
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(40, 60))
    bank = KernelBank(Linear(), views="each")
    many = GPMKLRegressor(bank, together=False, inference=FEW).fit(wide, wide[:, 0])
    report_model(many, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    front, appendix = text.split('<section id="appendix">')
    assert "<details" not in front
    assert max(len(rows) for rows in Page(front.partition("<main>")[2]).tables.values()) <= 13
    assert appendix.count("<details>") >= 2
    assert len(text) < 1_000_000


def test_bad_input_of_a_model_is_named(model):
    with pytest.raises(TypeError, match="`path` must be a str or a path"):
        report_model(model, X[50:], Y[50:])
    with pytest.raises(ValueError, match="`y` must be None without `X`"):
        report_model(model, y=Y)
    with pytest.raises(TypeError, match="has no BEMKL posterior"):
        report_model(KernelBank())
