"""Policies and manifests for the tests of commands: small, and in the forms that people write."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from webhook.cli.main import tollgate

POLICY: dict[str, Any] = {
    "apiVersion": "tollgate.dev/v1alpha1",
    "kind": "Policy",
    "budgets": [
        {
            "name": "prod",
            "selector": {"namespaces": ["prod"]},
            "tokensPerSecond": 10000,
            "cohort": "llm",
            "borrowingLimit": 0,
            "lendingLimit": 0,
        },
        {
            "name": "batch",
            "selector": {"namespaceSelector": {"matchLabels": {"team": "batch"}}},
            "tokensPerSecond": 6000,
            "onExceeded": "Hold",
            "cohort": "llm",
            "borrowingLimit": 0,
            "lendingLimit": 0,
        },
        {
            "name": "urgent",
            "selector": {"priorityClassNames": ["urgent"]},
            "tokensPerSecond": 1000,
        },
        {
            "name": "watched",
            "selector": {"namespaces": ["watched"]},
            "tokensPerSecond": 1000,
            "mode": "Warn",
        },
    ],
    "queues": [{"selector": {"namespaces": ["prod"]}, "kueue": {"localQueue": "gpus"}}],
    "sharing": [
        {
            "selector": {"namespaces": ["dev"]},
            "scheme": "TimeSlicing",
            "gpu": "a100-80gb",
            "replicas": 4,
            "resource": "nvidia.com/gpu.shared",
        }
    ],
}


def metadata(name: str, namespace: str | None, claim: object = None, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, **more}
    if namespace is not None:
        made["namespace"] = namespace
    if claim is not None:
        made["annotations"] = {"tollgate.dev/tokens-per-second": str(claim), **more.get("annotations", {})}
    return made


def spec(**more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "vllm/vllm-openai:v0.11.0", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {"containers": [container], **more}


def pod(name: str, namespace: str | None = "prod", claim: object = 1000, **more: Any) -> dict[str, Any]:
    """A pod with one GPU that declares its claim."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, namespace, claim, **more),
        "spec": spec(),
    }


def workload(kind: str, name: str, namespace: str = "prod", claim: object = 1000, **counts: Any) -> dict[str, Any]:
    """A Deployment, Job … whose pods have one GPU each and declare their claim."""
    restarts = {"restartPolicy": "Never"} if kind in ("Job", "CronJob") else {}
    template = {"metadata": metadata("", None, claim), "spec": spec(**restarts)}
    template["metadata"].pop("name")
    inner = {**counts, "template": template}
    if kind == "CronJob":
        inner = {"schedule": "0 * * * *", "jobTemplate": {"spec": inner}}
    return {
        "apiVersion": "batch/v1" if restarts else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": inner,
    }


def running(name: str, namespace: str = "prod", phase: str = "Running", **more: Any) -> dict[str, Any]:
    """A pod as `kubectl get pods -o yaml` shows it."""
    return {**pod(name, namespace, **more), "status": {"phase": phase}}


def write(path: Path, *documents: Mapping[str, Any] | str) -> str:
    """Writes documents into a YAML file; returns its name."""
    parts = [one if isinstance(one, str) else yaml.safe_dump(dict(one), sort_keys=False) for one in documents]
    path.write_text("---\n".join(parts))
    return str(path)


def invoke(*arguments: str, stdin: bytes | None = None) -> Result:
    """Runs `tollgate` in this process."""
    return CliRunner().invoke(tollgate, list(arguments), input=stdin)


class Files:
    """A directory with a policy, and a way to review documents under it."""

    def __init__(self, directory: Path, policy: dict[str, Any] | None = None) -> None:
        self.directory = directory
        self.policy = write(directory / "policy.yaml", POLICY if policy is None else policy)

    def write(self, name: str, *documents: Mapping[str, Any] | str) -> str:
        """Writes a file of documents; returns its name."""
        return write(self.directory / name, *documents)

    def run(self, *documents: Mapping[str, Any] | str, options: tuple[str, ...] = ()) -> Result:
        """Reviews documents and gives what the command did."""
        file = self.write("pods.yaml", *documents)
        return invoke("review", "--config", self.policy, *options, file)

    def answer(self, *documents: Mapping[str, Any] | str, options: tuple[str, ...] = ()) -> dict[str, Any]:
        """Reviews documents and gives the JSON; its exit code agrees with it."""
        result = self.run(*documents, options=("-o", "json", *options))
        assert result.exit_code in (0, 1), result.output
        answer: dict[str, Any] = json.loads(result.stdout)
        assert result.exit_code == (1 if answer["denied"] else 0)
        return answer

    def results(self, *documents: Mapping[str, Any] | str, options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """The results of the JSON."""
        results: list[dict[str, Any]] = self.answer(*documents, options=options)["results"]
        return results
