"""Tollgate: admission for GPU clusters.

The rooms, from the ground up: `domain` decides and is pure; `policy` reads the ConfigMap; `review` speaks
AdmissionReview; `ledger` records what budgets have given out; `server` answers the API server; `cli` is for people.
"""
