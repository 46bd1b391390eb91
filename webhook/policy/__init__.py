"""The ConfigMap: schema, strict parser, defaults, catalogue merge."""
