"""The BEMKL models: one sweep of closed-form updates each, in the order of the paper."""
