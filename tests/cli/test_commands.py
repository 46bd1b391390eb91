"""The command line itself: exit codes, streams, formats, and one line for everything that is wrong."""

import json
import os
import re
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.manifests import Files, invoke, pod, running, workload
from webhook.cli import main

TOLLGATE = [sys.executable, "-m", "webhook.cli.main"]

ANSI = "\x1b["


def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TOLLGATE, *arguments], capture_output=True, text=True, check=False, **more)


def test_a_real_process_reads_standard_input_and_ends_with_the_contract_s_code(files: Files) -> None:
    document = json.dumps(pod("a", claim=20000))

    done = run("review", "--config", files.policy, "-o", "json", "-", input=document)

    assert done.returncode == 1
    assert done.stderr == ""
    (result,) = json.loads(done.stdout)["results"]
    assert (result["source"], result["verdict"]) == ("-#0", "Deny")


def test_a_reader_that_goes_away_is_no_traceback(files: Files) -> None:
    many = files.write("many.yaml", *(pod(f"p{index}", claim=1) for index in range(300)))
    with subprocess.Popen(
        [*TOLLGATE, "review", "--config", files.policy, "-o", "json", many],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""


def test_several_files_and_directories_are_read_in_order(files: Files) -> None:
    directory = files.directory / "more"
    directory.mkdir()
    (directory / "b.json").write_text(json.dumps(pod("b", claim=1)))
    (directory / "a.yaml").write_text(yaml.safe_dump(pod("a", claim=2)))
    last = files.write("last.yaml", pod("c", claim=3))

    result = invoke("review", "--config", files.policy, "-o", "json", str(directory), last)

    assert [one["name"] for one in json.loads(result.stdout)["results"]] == ["a", "b", "c"]
    assert json.loads(result.stdout)["results"][2]["budget"]["reserved"] == 3


UNREADABLE = [
    ("kind: Pod\n", "#0: line 1: has no apiVersion"),
    ("- a\n", "#0: line 1: a list is no Kubernetes object"),
    ("apiVersion: v1\nkind: Pod\nkind: Pod\n", "#0: line 3: key 'kind' is here twice"),
    ("a: [\n", "#0: line"),
]


@pytest.mark.parametrize(("text", "complaint"), UNREADABLE)
def test_unreadable_input_ends_with_2_and_one_line_each(files: Files, text: str, complaint: str) -> None:
    result = files.run(pod("a", claim=20000), options=("--running", files.write("bad.yaml", text)))
    other = files.run(text)

    for one in (result, other):
        assert one.exit_code == 2
        assert complaint in one.stderr
        assert one.stderr.count("\n") == 1
        assert one.stdout == ""


def test_all_unreadable_files_are_named_at_once(files: Files) -> None:
    bad = files.write("bad.yaml", "kind: Pod\n")

    result = invoke("review", "--config", files.policy, bad, "no.yaml")

    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 2


def test_a_running_pod_that_is_none_is_unreadable(files: Files) -> None:
    broken = {**running("a"), "spec": {"containers": 5}}

    result = files.run(pod("a"), options=("--running", files.write("now.yaml", broken)))

    assert result.exit_code == 2
    assert "now.yaml#0: line 1: no running Pod: spec.containers" in result.stderr


def test_a_wrong_policy_ends_with_2_and_all_its_errors(files: Files) -> None:
    Path(files.policy).write_text("apiVersion: tollgate.dev/v1alpha1\nkind: Policy\nmode: Enforced\nbudget: []\n")

    for arguments in (["review", "--config", files.policy, files.policy], ["config", "check", files.policy]):
        result = invoke(*arguments)

        assert result.exit_code == 2
        lines = result.stderr.splitlines()
        assert [line.partition(": ")[0] for line in lines] == ["Error", "Error"]
        assert "policy.yaml: line 3: mode:" in lines[0]
        assert "policy.yaml: line 4: budget:" in lines[1]
        assert "budgets" in lines[1]


USAGE = [
    (["review", "FILE"], "--config"),
    (["review", "--config", "POLICY"], "FILE"),
    (["review", "--config", "no.yaml", "FILE"], "no.yaml: cannot be read: No such file"),
    (["review", "--config", "POLICY", "-o", "xml", "FILE"], "'xml'"),
    (["review", "--config", "POLICY", "--as-group", "g", "FILE"], "--as-group needs --as"),
    (["review", "--config", "POLICY", "--as", "", "FILE"], "--as"),
    (["review", "--config", "POLICY", "--namespace", "A", "FILE"], "'A' is not a DNS label"),
    (["review", "--config", "POLICY", "--namespace-labels", "team", "FILE"], "'team' is not key=value"),
    (["review", "--config", "POLICY", "--namespace-labels", "team=a b", "FILE"], "'a b'"),
    (["review", "--config", "POLICY", "--running", "-", "-"], "once only"),
    (["review", "--config", "POLICY", "--unknown", "FILE"], "--unknown"),
    (["config", "explain", "budgets.nominal"], "budgets[].nominal"),
    (["config", "diff", "-", "-"], "once only"),
    (["serve"], "not in this version; add --standalone"),
    (["serve", "--standalone"], "--config"),
    (["serve", "--standalone", "--config", "no.yaml"], "no.yaml: cannot be read"),
    (["serve", "--standalone", "--config", "POLICY", "--port", "70000"], "70000"),
    (["serve", "--standalone", "--config", "POLICY", "--cert-dir", "d", "--extra-san", "a"], "--cert-dir has one"),
    (["serve", "--standalone", "--config", "POLICY", "--cert-dir", "no-dir"], "--cert-dir: no-dir is no directory"),
    (["certs", "dev", "--san", "https://x"], "'https://x' is neither a DNS name nor an IP address"),
    (["nothing"], "nothing"),
]


@pytest.mark.parametrize(("arguments", "complaint"), USAGE)
def test_usage_errors_end_with_2(files: Files, arguments: list[str], complaint: str) -> None:
    file = files.write("pods.yaml", pod("a"))
    names = {"POLICY": files.policy, "FILE": file}

    result = invoke(*(names.get(argument, argument) for argument in arguments))

    assert result.exit_code == 2
    assert complaint in result.stderr
    assert "Traceback" not in result.output


def test_text_shows_everything_at_a_glance_and_every_message_in_full(files: Files) -> None:
    long = "a" * 200
    result = files.run(pod("first", claim=6000), pod(long, claim=5000), workload("Deployment", "web", replicas=2))

    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert ANSI not in result.stdout
    assert re.split(r"\s{2,}", lines[1].strip()) == [
        *("Admit", "Fits", "Pod prod/first", "6000 (Declared)", "prod: 0 → 6000 of 10000", "labels, annotations"),
    ]
    assert re.split(r"\s{2,}", lines[2].strip())[:5] == [
        *("Deny", "TokenBudgetExceeded", f"Pod prod/{long}", "5000 (Declared)", "prod: 6000 of 10000"),
    ]
    assert "Deployment prod/web ×2" in lines[3]
    (message,) = (line for line in lines if "budget prod has no room" in line)
    assert "claims 5000 tokens/s, used 0 + reserved 6000 of 10000" in message
    assert lines[-1] == "2 admitted, 1 denied"


def test_text_of_documents_cannot_act_on_the_terminal(files: Files) -> None:
    result = files.run(pod("a\u001b[31m[bold]", claim=1))

    assert "\u001b" not in result.stdout
    assert "[bold]" in result.stdout


def test_warnings_are_in_the_text(files: Files) -> None:
    result = files.run(workload("DaemonSet", "w"))

    assert "  warning: a DaemonSet makes one pod for each node" in result.stdout


def test_text_says_where_there_was_nothing_to_review(files: Files) -> None:
    assert files.run("# nothing\n").stdout == "No Pod and no known workload in these documents.\n"


def test_yaml_says_the_same_as_json_and_survives_kubectl(files: Files) -> None:
    documents = (json.dumps(pod("a", labels={"tier": "y"})) + "\n", pod("b", claim=20000))
    written = files.run(*documents, options=("-o", "yaml")).stdout

    assert yaml.safe_load(written) == files.answer(*documents)
    assert "tier: 'y'" in written
    assert "&id" not in written


def test_results_do_not_depend_on_the_run(files: Files) -> None:
    documents = (workload("Deployment", "w", replicas=2), workload("CronJob", "c"), pod("a"))

    assert files.answer(*documents) == files.answer(*documents)


def test_the_version_is_that_of_the_distribution() -> None:
    assert re.fullmatch(r"tollgate, version \d+\.\d+\.\d+\n", invoke("--version").stdout)


@pytest.mark.parametrize(
    "command",
    [[], ["review"], ["serve"], ["config"], ["config", "check"], ["config", "explain"], ["config", "diff"], ["certs"]],
)
def test_every_command_explains_itself(command: list[str]) -> None:
    result = invoke(*command, "--help")

    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: tollgate")


def test_a_valid_policy_is_summed_up(files: Files) -> None:
    result = invoke("config", "check", files.policy)

    assert result.exit_code == 0
    assert "valid" in result.stdout
    assert "4 budgets, 1 queue rule, 1 sharing rule" in result.stdout


def test_a_field_is_explained() -> None:
    result = invoke("config", "explain", "budgets.utilization")

    assert result.exit_code == 0
    assert "default: 0.7" in result.stdout


def test_policies_are_compared_by_meaning(files: Files) -> None:
    old = Path(files.policy).read_text()
    new = files.directory / "new.yaml"
    new.write_text(old.replace("tokensPerSecond: 6000", "tokensPerSecond: 7000  # more"))

    different = invoke("config", "diff", files.policy, str(new))
    same = invoke("config", "diff", files.policy, files.policy)

    assert (different.exit_code, same.exit_code) == (0, 0)
    assert different.stdout == "~ budgets[batch].tokensPerSecond: 6000 -> 7000\n"
    assert "mean the same" in same.stdout


def test_development_certificates_are_written_where_asked(tmp_path: Path) -> None:
    result = invoke("certs", "dev", "--out", str(tmp_path / "c"), "--san", "gpu.example")

    assert result.exit_code == 0
    assert sorted(result.stdout.split()) == [str(tmp_path / "c" / name) for name in ("ca.crt", "tls.crt", "tls.key")]
    ssl.create_default_context(cafile=tmp_path / "c" / "ca.crt")
    assert (tmp_path / "c" / "tls.key").stat().st_mode & 0o077 == 0


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    result = invoke("certs", "dev", "--out", str(tmp_path / "file" / "c"))

    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_options_of_serve_are_read_from_the_environment(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOLLGATE_PORT", "70000")

    assert "70000" in invoke("serve", "--standalone", "--config", files.policy).stderr


def test_a_service_link_is_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOLLGATE_PORT", "tcp://10.0.0.1:443")
    monkeypatch.setattr(main, "tollgate", lambda: None)

    main.main()

    assert "TOLLGATE_PORT" not in os.environ


def test_a_server_that_cannot_start_says_so_in_one_line(files: Files) -> None:
    missing = str(files.directory / "no.crt")
    arguments = ("serve", "--standalone", "--config", files.policy, "--port", "0", "--ops-port", "0")

    done = run(*arguments, "--bind-address", "127.0.0.1", "--client-ca", missing)

    assert done.returncode == 2
    assert missing in done.stderr
    assert "Traceback" not in done.stderr
