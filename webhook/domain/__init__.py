"""Everything that decides: values in, values out. No I/O, no clock, no Kubernetes client, no framework."""
