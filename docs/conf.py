"""Sphinx configuration. Built by `make docs` with every warning an error."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

import bayesmkl

project = "bayesmkl"
author = "The bayesmkl developers"
copyright = "2026, The bayesmkl developers"
version = release = bayesmkl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx-mathjax-offline",  # copies MathJax beside the pages
]
exclude_patterns = ["_build", "_generated"]
templates_path = ["_templates"]
default_role = "code"
nitpicky = True
nitpick_ignore = [("py:func", "bayesmkl.kernels.checks.check_kernel_stack")]  # named in a docstring only
nitpick_ignore_regex = [("py:.*", r"(sklearn|joblib)\..*")]  # looked up nowhere, so that no network is needed

# Markdown
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
mathjax_path = "mathjax/tex-chtml.js"  # under _static: no network

# API pages: one per public name, from its docstring alone
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
autodoc_default_options = {
    "inherited-members": "BaseEstimator,ClassifierMixin,RegressorMixin,TransformerMixin,tuple,dict,Warning",
    # scikit-learn's own, described there
    "exclude-members": "get_metadata_routing, set_output, set_fit_request, set_transform_request, "
    "set_predict_request, set_predict_proba_request, set_decision_function_request, set_score_request",
}
numpydoc_show_class_members = False  # the class template lists them
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "bayesmkl"
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
html_sidebars = {
    page: [] for page in ("index", "getting_started", "performance", "contributing", "changelog")
}


def escape_trailing_underscores(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Keep `(n_kernels_,)` in a type line from being read as a hyperlink."""
    for i, line in enumerate(lines):
        if re.match(r"\w[\w, *]* : ", line):
            lines[i] = re.sub(r"(?<=\w)_(?=[,)\s]|$)", r"\_", line)


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", escape_trailing_underscores, priority=100)  # before numpydoc
