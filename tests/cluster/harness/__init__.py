"""A control plane as plain processes on this machine, for tests and for people: no container, no kubelet, no root."""
