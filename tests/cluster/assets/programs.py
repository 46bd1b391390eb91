"""What can be built: one row for each program, and which versions the modules beside this file pin."""

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

HERE = Path(__file__).parent

_KUBERNETES_VERSION = "1.36.3"
_MAJOR, _MINOR, _ = _KUBERNETES_VERSION.split(".")
_COMPONENT = "k8s.io/component-base/version"

KUBERNETES_FLAGS = (
    f"-X {_COMPONENT}.gitVersion=v{_KUBERNETES_VERSION} -X {_COMPONENT}.gitMajor={_MAJOR}"
    f" -X {_COMPONENT}.gitMinor={_MINOR}"
)
"""Without them the programs call themselves v0.0.0, and clients misjudge what the server can do."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A Go program: the folder here with its go.mod, the module it comes from, its package.

    `files` are folders of the module that are wanted beside the program (manifests, CRDs).
    """

    name: str
    part: str
    module: str
    package: str
    link_flags: str = ""
    files: tuple[str, ...] = ()

    @property
    def directory(self) -> Path:
        """Where its go.mod and go.sum are."""
        return HERE / self.part

    @cached_property
    def version(self) -> str:
        """The version that go.mod pins, with its v."""
        found = re.search(
            rf"^\s*{re.escape(self.module)} (v\S+)", (self.directory / "go.mod").read_text(), re.MULTILINE
        )
        if found is None:
            raise ValueError(f"{self.directory / 'go.mod'} does not require {self.module}")
        return found[1]

    @cached_property
    def digest(self) -> str:
        """Of everything that decides what is built but the Go version: modules, flags, machine."""
        machine = (platform.system(), platform.machine(), os.environ.get("GOAMD64", ""))
        hasher = hashlib.sha256(repr((self, machine)).encode())
        for name in ("go.mod", "go.sum"):
            hasher.update((self.directory / name).read_bytes())
        return hasher.hexdigest()[:12]


def _kubernetes(name: str) -> Program:
    return Program(
        name=name,
        part="kubernetes",
        module="k8s.io/kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        link_flags=KUBERNETES_FLAGS,
    )


PROGRAMS = {
    program.name: program
    for program in (
        Program(name="etcd", part="etcd", module="go.etcd.io/etcd/server/v3", package="go.etcd.io/etcd/server/v3"),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kube-scheduler"),
        _kubernetes("kubectl"),
        Program(
            name="kwok",
            part="kwok",
            module="sigs.k8s.io/kwok",
            package="sigs.k8s.io/kwok/cmd/kwok",
            files=("kustomize/stage", "kustomize/rbac"),
        ),
        Program(
            name="kueue",
            part="kueue",
            module="sigs.k8s.io/kueue",
            package="sigs.k8s.io/kueue/cmd/kueue",
            files=("config",),
        ),
        Program(
            name="karpenter",
            part="karpenter",
            module="sigs.k8s.io/karpenter",
            package="sigs.k8s.io/karpenter/kwok",
            files=("pkg/apis/crds", "kwok/apis/crds", "kwok/charts/templates"),
        ),
    )
}

ENVTEST_PROGRAMS = ("kube-apiserver", "etcd", "kubectl")
"""What a folder named by KUBEBUILDER_ASSETS holds (controller-runtime's setup-envtest)."""
