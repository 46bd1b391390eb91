"""aiohttp: routes, limits, TLS contexts, probes, drain."""
