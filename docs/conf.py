"""Sphinx configuration. Built by `make docs` with every warning an error."""

from __future__ import annotations

import gc
import os
import re
import shutil
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from jinja2.loaders import BaseLoader
from jinja2.sandbox import SandboxedEnvironment
from matplotlib.sphinxext.plot_directive import PlotDirective
from numpydoc import docscrape_sphinx
from sphinx.application import Sphinx

import bayesmkl

HERE = Path(__file__).resolve().parent
NOTEBOOKS = HERE.parent / "notebooks"

# Modules are no garbage, nor are pages before they are written.
gc.freeze()
gc.set_threshold(100_000, 50, 100)

FAST = "BAYESMKL_FAST" in os.environ  # check the pages without running the gallery and the pictures

project = "bayesmkl"
author = "The bayesmkl developers"
copyright = "2026, The bayesmkl developers"
version = release = bayesmkl.__version__

extensions = [
    "myst_nb",  # Markdown pages and notebooks
    "sphinx_gallery.gen_gallery",  # runs the scripts in examples/gallery
    "matplotlib.sphinxext.plot_directive",  # runs the scripts in docs/pictures
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx-mathjax-offline",  # copies MathJax beside the pages
]
exclude_patterns = [
    "_build",
    "_templates",
    "pictures",
    "gallery/*.ipynb",
    "gallery/*.py",
]
templates_path = ["_templates"]
default_role = "code"
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(sklearn|joblib)\..*")]  # looked up nowhere, so that no network is needed

copybutton_exclude = ".linenos, .gp, .go"  # neither prompts nor what was printed

# Markdown
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
mathjax_path = "mathjax/tex-chtml.js"  # under _static: no network

# Notebooks are shown with the outputs that they store; `make notebooks` runs them.
nb_execution_mode = "off"
nb_merge_streams = True
nb_output_stderr = "error"

# Gallery and pictures
sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "plot_gallery": not FAST,
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # seconds: a build log without times
    "write_computation_times": False,
    "remove_config_comments": True,
}
plot_html_show_formats = False
plot_html_show_source_link = False
plot_formats = [("png", 120)]
plot_rcparams = {"figure.dpi": 120}
plot_apply_rcparams = True
plot_basedir = "pictures"

# API pages: one per public name, from its docstring alone
autosummary_generate = ["api/index.rst"]
autodoc_typehints = "none"
maximum_signature_line_length = 80  # longer ones have a line for each parameter
autodoc_member_order = "groupwise"
autodoc_default_options = {
    "inherited-members": "BaseEstimator,ClassifierMixin,RegressorMixin,TransformerMixin,tuple,dict,Warning",
    # scikit-learn's own, described there
    "exclude-members": "get_metadata_routing, set_output, set_fit_request, set_transform_request, "
    "set_predict_request, set_predict_proba_request, set_predict_log_proba_request, "
    "set_decision_function_request, set_score_request",
}
numpydoc_show_class_members = False  # the class template lists them
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False
TEMPLATES = SandboxedEnvironment()

html_theme = "pydata_sphinx_theme"
html_title = "bayesmkl"
html_context = {"default_mode": "auto"}  # light or dark, as the reader has it
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["bayesmkl.css"]
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "navigation_with_keys": False,
}
html_sidebars = {page: [] for page in ("index", "getting_started", "notebooks", "contributing", "changelog")}


def escape_trailing_underscores(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Keep `(n_kernels_,)` in a type line from being read as a hyperlink."""
    for i, line in enumerate(lines):
        if re.match(r"\w[\w, *]* : ", line):
            lines[i] = re.sub(r"(?<=\w)_(?=[,)\s]|$)", r"\_", line)


class NoPlot(Directive):
    """Stand in for the plot directive: check that the script exists, and draw nothing."""

    required_arguments = 1
    option_spec = PlotDirective.option_spec

    def run(self) -> list[nodes.Node]:
        if not (HERE / plot_basedir / self.arguments[0]).is_file():
            raise self.error(f"docs/{plot_basedir}/{self.arguments[0]} does not exist")
        return []


def copy_notebooks(app: Sphinx) -> None:
    """Copy the notebooks below the pages, so that both can link to each other."""
    folder = HERE / "notebooks"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for notebook in NOTEBOOKS.glob("*.ipynb"):
        shutil.copy2(notebook, folder)  # with its time, so that an unchanged one is not read again


def share_templates(loader: BaseLoader) -> SandboxedEnvironment:
    """Give numpydoc one environment for all docstrings: in a new one for each, it compiles its template each time."""
    TEMPLATES.loader = TEMPLATES.loader or loader
    return TEMPLATES


def leave_out_search(app: Sphinx) -> None:
    """Write pages without an index of their words."""
    app.builder.search = False


def setup(app: Sphinx) -> None:
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True  # it copies files, and reads no page
    docscrape_sphinx.SandboxedEnvironment = share_templates
    app.connect("builder-inited", copy_notebooks)
    if FAST:
        app.connect("builder-inited", leave_out_search)
        app.add_directive("plot", NoPlot, override=True)
    app.connect("autodoc-process-docstring", escape_trailing_underscores, priority=100)  # before numpydoc
