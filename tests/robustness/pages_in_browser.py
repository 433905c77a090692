"""Built pages in Chromium, by width and color scheme: overflow, contrast, complaints of the console.

    make docs pages-check                                        every page of PAGES, by axe-core too
    python tests/robustness/pages_in_browser.py guide/table.html  some of them
    python tests/robustness/pages_in_browser.py --axe FILE       by the rules of axe-core, whose axe.min.js FILE is

Contrast is that of WCAG AA: 4.5 between text and the background that is painted below it, 3 for large text. What
scrolls in place is no overflow. Pages built with FAST=1 have no index for the search; that it is absent is expected.
The report of a small model is a page, too. axe-core tries its rules for WCAG 2.1, A and AA, on the whole page.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "docs" / "_build" / "html"
sys.path.insert(0, str(ROOT / "tests" / "evaluation"))

import headless_browser  # noqa: E402
from headless_browser import Browser, find_browser  # noqa: E402

headless_browser.PATIENCE = 300.0  # seconds: axe-core looks at every node of a long page

WIDTHS = (390, 768, 1440)
SCHEMES = ("light", "dark")
GUIDES = ("table", "which_model", "reading", "outcomes", "designs", "comparing", "coming_from")
PAGES = (
    *("index.html", "getting_started.html", "performance.html", "gallery/index.html", "api/index.html"),
    *("guide/index.html", *(f"guide/{name}.html" for name in GUIDES), "algorithms/gpmkl.html"),
    *("gallery/plot_1_shares.html", "notebooks/02_posterior_analysis.html"),
)
OVERFLOW = """
(() => {
  const width = document.documentElement.clientWidth;
  const scrolls = (node) => /auto|scroll|hidden|clip/.test(getComputedStyle(node).overflowX);
  const inside = (node) => { for (let p = node.parentElement; p; p = p.parentElement) if (scrolls(p)) return true; };
  const wide = [...document.querySelectorAll("main *")].filter(
    (node) => node.getBoundingClientRect().right > width + 1 && node.checkVisibility() && !inside(node));
  const by = document.documentElement.scrollWidth - width;
  const told = wide.slice(0, 3).map((node) => node.tagName + ": " + node.textContent.trim().slice(0, 40));
  return by > 0 ? [`${by} px`, ...told] : [];
})()
"""
CONTRAST = """
(() => {
  const numbers = (color) => (color.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const below = (node) => {
    for (let p = node; p; p = p.parentElement) {
      const color = numbers(getComputedStyle(p).backgroundColor);
      if (color.length == 3 || color[3] == 1) return color;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    if (node.closest("script, style, mjx-container, svg, button")) continue;
    const style = getComputedStyle(node);
    const pair = [light(numbers(style.color)), light(below(node))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) found.add(`${ratio.toFixed(2)}: ${text.data.trim().slice(0, 40)}`);
  }
  return [...found].slice(0, 5);
})()
"""
AXE = """
axe.run(document, {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], resultTypes: ["violations"], preload: false
}).then((done) => done.violations.map(({id, nodes}) => `${id} (${nodes.length}): ${nodes[0].html.slice(0, 160)}`))
"""
EXPECTED = ("ERR_FILE_NOT_FOUND", "Got invalid theme mode")


def write_report(path: Path) -> Path:
    """Write the report of a small model, with curves, folded tables, and samples that were held out."""
    import numpy as np

    from bayesmkl import GPMKLRegressor
    from bayesmkl.evaluation import report_model

    X = np.random.default_rng(0).normal(size=(90, 14))
    y = X[:, 0] + np.sin(2 * X[:, 1])
    model = GPMKLRegressor(views="each", random_state=0, verbose=0).fit(X[:60], y[:60])
    report_model(model, path, X[60:], y[60:], random_state=0)
    return path


def main() -> int:
    """Look at every page; print what is wrong, and return the exit code."""
    browser = find_browser()
    if browser is None:
        print("there is no Chromium here")
        return 2
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("pages", nargs="*", help="pages below docs/_build/html, instead of all")
    options.add_argument("--axe", type=Path, help="axe.min.js of the package axe-core")
    given = options.parse_args()
    axe = given.axe.read_text(encoding="utf-8") if given.axe else None
    n_views = n_bad = 0
    with tempfile.TemporaryDirectory() as profile, Browser(browser, Path(profile)) as view:
        for page in given.pages or (*PAGES, write_report(Path(profile) / "report.html")):
            for scheme in SCHEMES:
                view.call(
                    "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
                )
                for width in WIDTHS:
                    view.complaints.clear()
                    view.open(HTML / page, width)
                    complaints = [c for c in view.complaints if not any(known in c for known in EXPECTED)]
                    wrong = {
                        "overflow": view.evaluate(OVERFLOW),
                        "contrast": view.evaluate(CONTRAST),
                        "console": complaints,
                    }
                    if axe is not None:
                        view.evaluate(axe + "; null")
                        wrong["axe"] = view.evaluate(AXE)
                    n_views += 1
                    n_bad += any(wrong.values())
                    for what, found in wrong.items():
                        if found:
                            print(f"{page}, {width} px, {scheme}: {what}: {'; '.join(found)}", flush=True)
    print(f"{n_views} views, {n_bad} of them with something wrong")
    return int(bool(n_bad))


if __name__ == "__main__":
    sys.exit(main())
