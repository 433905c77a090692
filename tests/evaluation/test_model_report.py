"""The page about a model: its numbers are those of the functions, safe against names, alive in a browser."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from headless_browser import Browser, find_browser

from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.evaluation import concordance_index, evaluate_classifier, report_model
from bayesmkl.evaluation.report.page import Drawing, Printed, Rows, markdown
from bayesmkl.gp import Design, GPMKLOrdinalClassifier, GPMKLSurvival, Marginal
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.posterior import contributions, feature_table, inclusion_table, relevance, view_table

EVIL = "<script>document.title='evil'</script>"
FEW = Marginal(n_points=120, n_draws=100)
rng = np.random.default_rng(3)
X = pd.DataFrame(rng.normal(size=(70, 3)), columns=["age", EVIL, "dose|mg"])
SCORE = 1.5 * X["age"].to_numpy() + 0.5 * rng.normal(size=70)
Y = np.where(SCORE > 0, "ill", "well")
VIEWS = {"person": ["age"], EVIL: [EVIL, "dose|mg"]}
BANK = KernelBank([Gaussian(width=1.5), Linear()], views=VIEWS, normalize="center")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def few_integrals(monkeypatch):
    """Spend little time on what `test_importance` looks at."""
    for limit in ("MOST_DRAWS", "FEWEST_DRAWS"):
        monkeypatch.setattr(f"bayesmkl.posterior.importance.{limit}", 30)


@pytest.fixture(scope="module")
def model():
    return GPMKLClassifier(BANK, inference=FEW).fit(X[:50], Y[:50])


@pytest.fixture(scope="module")
def report(model):
    return report_model(model, X[50:], Y[50:], title=f"Cells {EVIL}", refits=True, random_state=0)


@pytest.fixture(scope="module")
def page(report, tmp_path_factory):
    return report.write_html(tmp_path_factory.mktemp("page") / "report.html")


def rows_of(report, part, label):
    return next(b.frame for b in report.parts[part] if isinstance(b, Rows) and b.label == label)


@pytest.mark.heavy
def test_shares_are_those_of_the_table(report, model):
    found, expected = rows_of(report, "Views and kernels", "shares of views"), view_table(model)
    assert found["view"].tolist() == expected["view"].tolist() == ["person", EVIL]
    np.testing.assert_allclose(found["share"], expected["share"])
    assert f"person {expected['share'][0]:.2f} [" in report.parts["Summary"][0][1]


def test_slopes_are_those_of_the_table(report, model):
    found, expected = rows_of(report, "Features", "slopes"), feature_table(model)
    assert found["feature"].tolist() == expected["feature"].tolist()
    np.testing.assert_allclose(found["size"], expected["size"])  # the rest is drawn
    assert any(isinstance(block, Drawing) for block in report.parts["Features"])


@pytest.mark.heavy
def test_inclusion_is_that_of_the_table(undrawn):
    y = 2.0 * X["age"].to_numpy() + 0.3 * rng.normal(size=70)
    chosen = GPMKLRegressor(BANK, kernel_prior="spike-slab", inference=FEW).fit(X[:40], y[:40])
    report = report_model(chosen, random_state=0)
    found, expected = rows_of(report, "Views and kernels", "inclusion"), inclusion_table(chosen)
    assert found["view"].tolist() == expected["view"].tolist()
    np.testing.assert_allclose(found["prob included"], expected["prob_included"])


def test_parts_of_samples_sum_to_scores(report, model):
    frame = rows_of(report, "Samples", "parts of the scores of samples")
    np.testing.assert_allclose(frame["score"], model.predict_latent(X[50:]), atol=1e-10)
    parts = frame[["person", EVIL, "intercept"]]
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


def test_refits_say_what_predictions_need(report, model):
    found, expected = rows_of(report, "Views and kernels", "relevance"), relevance(model)
    assert found["without"].tolist() == expected["without"].tolist()
    assert found["verdict"][0] == "signal"


def test_every_doubt_is_in_the_summary_and_under_trust(report):
    doubts = [
        block.text
        for block in report.parts["Trust"]
        if re.search(": (caution|bad)$", getattr(block, "text", ""))
    ]
    said = next(text for text in report.parts["Summary"][0] if "care" in text or "No check" in text)
    for doubt in doubts:
        assert doubt.split(":")[0] in said
    assert bool(doubts) == ("care" in said)


@pytest.mark.heavy
def test_the_same_seed_gives_the_same_page(report, model, undrawn):
    again = report_model(model, X[50:], Y[50:], title=f"Cells {EVIL}", refits=True, random_state=0)
    assert str(again) == str(report)


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


def test_names_are_text(page):
    html = page.read_text()
    assert EVIL not in html
    assert html.count("<script") == 1
    assert page.stat().st_size < 1_000_000


@pytest.mark.heavy
@pytest.mark.skipif(find_browser() is None, reason="needs Chromium")
def test_page_in_a_browser(page, tmp_path):
    with Browser(find_browser(), tmp_path / "profile") as browser:
        browser.open(page, 400, 800)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 400
        browser.resize(1200, 900)
        assert browser.evaluate("document.title") == f"Cells {EVIL}"
        score = "[...document.querySelectorAll('#parts tbody tr')].map(r => Number(r.cells[3].textContent))"
        browser.click("#parts th:nth-child(4) button")
        first = browser.evaluate(score)
        assert first == sorted(first)
        change = "f.value = 'ill'; f.dispatchEvent(new Event('input', {bubbles: true}))"
        browser.evaluate(f"(f => {{{change}}})(document.querySelector('#parts').parentNode.previousSibling)")
        shown = "[...document.querySelectorAll('#parts tbody tr')].filter((row) => !row.hidden).length"
        assert 0 < browser.evaluate(shown) < 20
        browser.click("nav a[href='#trust']")
        assert browser.evaluate("location.hash") == "#trust"
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
    report = report_model(model, NAMED[50:], y[50:], random_state=0)
    text = str(report)
    assert f"- {metric}: " in text or metric is None
    assert ("### Effects" in text) == (kind == "counts")
    if kind == "times":
        expected = concordance_index(y[50:], model.predict(NAMED[50:]))
        assert float(re.search(r"- concordance: (\S+)", text)[1]) == pytest.approx(expected, abs=5e-4)
    frame = rows_of(report, "Samples", "parts of the scores of samples")
    assert len(frame) == 20
    assert "score (part)" in frame
    assert "nan" not in text.lower().replace("nanometer", "")


@pytest.mark.heavy
def test_without_new_samples_those_of_training_are_shown(model, undrawn):
    report = report_model(model, random_state=0)
    assert len(rows_of(report, "Samples", "parts of the scores of samples")) == 50
    assert "No held-out samples were given" in str(report)
    stack = X[["age"]].to_numpy() @ X[["age"]].to_numpy().T
    given = GPMKLRegressor("precomputed", inference=FEW).fit(stack, SCORE)
    assert "Pass samples as `X`".replace("`", "\\`") in str(report_model(given))
    forgotten = BEMKLRegressor("precomputed").fit(stack, SCORE)
    with pytest.raises(ValueError, match="`kernels`"):
        report_model(forgotten)
    shown = rows_of(
        report_model(forgotten, kernels=stack, refits=True), "Views and kernels", "shares of kernels"
    )
    np.testing.assert_allclose(shown["share"], 1.0)


def test_bad_input_is_named(model):
    with pytest.raises(ValueError, match="`y` must be None without `X`"):
        report_model(model, y=Y)
    with pytest.raises(TypeError, match="`title` must be a str; got 3"):
        report_model(model, title=3)
    with pytest.raises(TypeError, match="has no BEMKL posterior"):
        report_model(KernelBank())
