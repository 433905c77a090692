"""What signs and the largest of two scores say about the class, and the probabilities that follow."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, DARK, GREEN, ORANGE, SKY, YELLOW, tidy

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.kernels import Gaussian

rng = np.random.default_rng(0)
y = np.repeat([0, 1, 2], 50)
x = np.array([-1.2, 0.0, 1.2])[y] + rng.normal(size=150)
new = np.linspace(-3, 3, 121)[:, None]
bank = KernelBank(Gaussian(width=1))
same = {"margin": 1.0, "intermediate_scale": 1.0}
signs = BEMKLClassifier(bank, **same).fit(x[:, None], np.eye(3, dtype=int)[y]).predict_proba(new)
largest = BEMKLClassifier(bank, multiclass="multinomial", **same).fit(x[:, None], y).predict_proba(new)

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained", width_ratios=(1, 1.15))
low, high, margin = -4, 4, 1
left.fill([low + margin, high, high], [low, low, high - margin], color=SKY, alpha=0.45, linewidth=0)
left.fill([low, low, high - margin], [low + margin, high, high], color=YELLOW, alpha=0.55, linewidth=0)
left.axhline(0, color=DARK, linestyle="--", linewidth=1)
left.axvline(0, color=DARK, linestyle="--", linewidth=1)
for at, text in [((2.2, -2.2), "class 1"), ((-2.2, 2.2), "class 2")]:
    left.text(*at, text, ha="center", va="center", fontsize=12, weight="bold", color=DARK)
box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
for at, text in [((2.2, 2.2), "signs say\nboth"), ((-2.2, -2.2), "signs say\nneither")]:
    left.text(*at, text, ha="center", va="center", style="italic", color=DARK, bbox=box)
left.set(
    xlim=(low, high), ylim=(low, high), aspect="equal", xlabel="score of class 1", ylabel="score of class 2"
)
left.set_title("The largest score names one class,\nsigns may name both or neither", fontsize="medium")

for probability, color, line in zip(largest.T, (BLUE, ORANGE, GREEN), ("-", "--", "-."), strict=True):
    right.plot(new[:, 0], probability, line, color=color, linewidth=1.8)
total = signs.sum(axis=1)
right.plot(new[:, 0], total, color=DARK, linewidth=2.5)
for at, text in [((-2.25, 0.86), "class 1"), ((0.15, 0.48), "class 2"), ((2.3, 0.86), "class 3")]:
    right.text(*at, text, ha="center", va="center", color=DARK)
right.text(0, 1.14, "three binary likelihoods, summed", ha="center", va="center", color=DARK, weight="bold")
right.set(xlabel="feature", ylabel="probability", ylim=(0, 1.25))
finding = f"Binary probabilities sum to {total.min():.1f} … {total.max():.1f};"
right.set_title(f"{finding}\nthe thin curves, of this model, to 1", fontsize="medium")
tidy(right)
