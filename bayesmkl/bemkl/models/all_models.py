"""Types for the problems and posteriors of several models, and the algorithm of each problem."""

from __future__ import annotations

from types import ModuleType
from typing import TypeAlias

from bayesmkl.bemkl.models import binary, multiclass, multinomial, multioutput, regression
from bayesmkl.bemkl.models.binary import BinaryPriors, BinaryProblem, BinaryState
from bayesmkl.bemkl.models.censored import CensoredPriors, CensoredProblem, CensoredState
from bayesmkl.bemkl.models.multiclass import MulticlassPriors, MulticlassProblem, MulticlassState
from bayesmkl.bemkl.models.multinomial import MultinomialPriors, MultinomialProblem, MultinomialState
from bayesmkl.bemkl.models.multioutput import MultioutputPriors, MultioutputProblem, MultioutputState
from bayesmkl.bemkl.models.ordinal import OrdinalPriors, OrdinalProblem, OrdinalState
from bayesmkl.bemkl.models.regression import RegressionPriors, RegressionProblem, RegressionState

__all__ = [
    "ALGORITHMS",
    "OutputsProblem",
    "OutputsState",
    "Priors",
    "Problem",
    "SingleProblem",
    "SingleState",
    "State",
]

# of one output
SingleProblem: TypeAlias = BinaryProblem | RegressionProblem | OrdinalProblem | CensoredProblem
SingleState: TypeAlias = BinaryState | RegressionState | OrdinalState | CensoredState
# of several outputs that share their kernel weights
OutputsProblem: TypeAlias = MulticlassProblem | MultinomialProblem | MultioutputProblem
OutputsState: TypeAlias = MulticlassState | MultinomialState | MultioutputState
Problem: TypeAlias = SingleProblem | OutputsProblem
State: TypeAlias = SingleState | OutputsState
Priors: TypeAlias = (
    BinaryPriors
    | RegressionPriors
    | OrdinalPriors
    | CensoredPriors
    | MulticlassPriors
    | MultinomialPriors
    | MultioutputPriors
)

# Of a regressor, and of a classifier whose classes have no order: the module whose updates find the posterior.
ALGORITHMS: dict[type, ModuleType] = {
    BinaryProblem: binary,
    RegressionProblem: regression,
    MulticlassProblem: multiclass,
    MultioutputProblem: multioutput,
    MultinomialProblem: multinomial,
}
