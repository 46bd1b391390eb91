"""The tables of fields: what may stand in a policy, with types, bounds and meaning, one module per section."""
