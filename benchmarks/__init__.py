"""How fast, as ratios within one run: see docs/benchmarks.md."""
