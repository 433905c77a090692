"""The layers of the package, and what crosses their borders."""

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

# From the data to the command line, as in the contract of pyproject.toml; each may import those before it.
LAYERS = (
    "_utils",
    "_numerics",
    "datasets",
    "kernels",
    "_estimator",
    "marginal",
    "bemkl | discriminative",
    "persistence",
    "posterior",
    "evaluation",
    "cli",
)
DARK, GREY, TINT = "#222222", "#666666", "#DCE9F5"

figure, ax = plt.subplots(figsize=(5.2, 8.5), layout="constrained")
ax.set(xlim=(0, 10), ylim=(0, 16.75))
ax.set_axis_off()


def box(left, bottom, width, height, name="", text="", color="white", line=1.2):
    """Draw a box with the name of a module, and what it makes below."""
    patch = FancyBboxPatch((left, bottom), width, height, boxstyle="round,pad=0,rounding_size=0.18")
    patch.set(facecolor=color, edgecolor=DARK, linewidth=line)
    ax.add_patch(patch)
    middle, lines = left + width / 2, text.count("\n") + bool(text)
    top = bottom + height / 2 + 0.27 * lines
    ax.text(middle, top, name, ha="center", va="center", family="monospace", weight="bold", size=11.5)
    ax.text(middle, top - 0.33, text, ha="center", va="top", size=10.5, linespacing=1.15)


def arrow(top, bottom, text, x=5.6):
    """Draw an arrow downwards, with what crosses the border on its right."""
    ax.annotate("", (x, bottom), (x, top), arrowprops={"arrowstyle": "-|>", "color": DARK, "lw": 1.6})
    ax.text(x + 0.25, (top + bottom) / 2, text, va="center", size=10, color=DARK, style="italic")


box(0.1, 0.1, 0.95, 16.5, color="#EEEEEE")
ax.text(
    0.58,
    8.35,
    "_utils     _numerics",
    rotation=90,
    ha="center",
    va="center",
    family="monospace",
    weight="bold",
    size=11.5,
)
box(1.3, 15.4, 8.6, 1.2, "datasets", "tables, arrays, blocks of rows")
arrow(15.4, 14.55, "X, y: samples first")

box(1.3, 5.95, 8.6, 8.6, line=2.2)
ax.text(1.55, 14.2, "an estimator, fit(X, y)", va="center", size=10.5)
ax.text(9.65, 14.2, "_estimator", va="center", ha="right", family="monospace", weight="bold", size=11.5)
box(1.6, 12.45, 8.0, 1.35, "kernels.bank", "views x kernels, normalized", TINT)
arrow(12.45, 11.65, "n_kernels, n_rows, n_train")
box(1.6, 10.0, 8.0, 1.65, "kernels.stacks", "combine, apply, adjoint,\ngram, quadratic", TINT)
arrow(10.0, 9.2, "stack, targets, options")
box(1.6, 7.95, 2.1, 1.25, "bemkl", "sweep, elbo", TINT)
box(3.9, 7.95, 2.2, 1.25, "marginal", "evidence", TINT)
box(6.3, 7.95, 3.3, 1.25, "discriminative", "fit_...", TINT)
arrow(7.95, 7.2, "a result: NamedTuple")
ax.text(
    5.6, 6.62, "kernel_weights_, dual_coef_,\nposterior_, classes_, ...", ha="center", va="center", size=10.5
)

arrow(5.95, 5.1, "a fitted estimator")
box(1.3, 3.85, 4.15, 1.25, "persistence", "model files")
box(5.75, 3.85, 4.15, 1.25, "posterior", "DataTree, plots")
arrow(3.85, 3.3, "")
box(1.3, 1.95, 8.6, 1.35, "evaluation", "Comparison, report")
arrow(1.95, 1.4, "")
box(1.3, 0.1, 8.6, 1.3, "cli", "fit, predict, compare")
ax.set_title(f"Data flow down through {len(LAYERS)} layers;\nimports only point back", size=13, color=DARK)
