"""Methods that are trained in the primal (Hao, Yuan, Yang & Chen 2012)."""
