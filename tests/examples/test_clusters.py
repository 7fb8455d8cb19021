"""What docs/scale.md and docs/jobset.yaml tell a cluster, which is not here to be asked."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
import yaml
from jax._src.clusters.k8s_cluster import K8sCluster
from jax._src.clusters.slurm_cluster import SlurmCluster
from typer.main import get_command

import inference
import touchstone

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "scale.md").read_text()
MANIFEST = (DOCS / "jobset.yaml").read_text()


def _fields(required: str = "", **properties: Any) -> dict[str, Any]:
    """The schema of an object with these fields and no others."""
    return {
        "type": "object", "properties": properties, "required": required.split(), "additionalProperties": False,
    }  # fmt: skip


def _some(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1}


_TEXT, _NUMBER, _SWITCH = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_NAME = {"type": "string", "pattern": "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"}
_ABOUT = _fields("", name=_NAME, namespace=_NAME, labels=_TEXTS, annotations=_TEXTS)
_QUANTITIES = {"type": "object", "additionalProperties": {"type": ["integer", "string"]}}
_CONTAINER = _fields(
    "name image",
    name=_NAME, image=_TEXT, imagePullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
    command=_some(_TEXT), args=_some(_TEXT), workingDir=_TEXT,
    env=_some(_fields("name", name=_TEXT, value=_TEXT)),
    ports=_some(_fields("containerPort", containerPort=_NUMBER, name=_NAME, protocol={"enum": ["TCP", "UDP"]})),
    resources=_fields("", limits=_QUANTITIES, requests=_QUANTITIES),
    volumeMounts=_some(_fields("name mountPath", name=_NAME, mountPath=_TEXT, readOnly=_SWITCH)),
)  # fmt: skip
_VOLUME = _fields(
    "name persistentVolumeClaim",
    name=_NAME, persistentVolumeClaim=_fields("claimName", claimName=_NAME, readOnly=_SWITCH),
)  # fmt: skip
_POD = _fields(
    "containers restartPolicy",
    containers=_some(_CONTAINER), volumes=_some(_VOLUME), restartPolicy={"enum": ["Never", "OnFailure"]},
    terminationGracePeriodSeconds=_NUMBER, nodeSelector=_TEXTS, serviceAccountName=_NAME, subdomain=_NAME,
)  # fmt: skip
_JOB = _fields(
    "template",
    completionMode={"enum": ["Indexed", "NonIndexed"]}, completions=_NUMBER, parallelism=_NUMBER, backoffLimit=_NUMBER,
    activeDeadlineSeconds=_NUMBER, template=_fields("spec", metadata=_ABOUT, spec=_POD),
)  # fmt: skip
# Of https://github.com/kubernetes-sigs/jobset, api/jobset/v1alpha2, and the parts of a Job and a Pod that are in use.
JOB_SET = _fields(
    "apiVersion kind metadata spec",
    apiVersion={"const": "jobset.x-k8s.io/v1alpha2"},
    kind={"const": "JobSet"},
    metadata={**_ABOUT, "required": ["name"]},
    spec=_fields(
        "replicatedJobs",
        replicatedJobs=_some(
            _fields(
                "name template",
                name=_NAME, groupName=_NAME, replicas=_NUMBER, template=_fields("spec", metadata=_ABOUT, spec=_JOB),
            )
        ),
        network=_fields("", enableDNSHostnames=_SWITCH, subdomain=_NAME, publishNotReadyAddresses=_SWITCH),
        successPolicy=_fields("operator", operator={"enum": ["All", "Any"]}, targetReplicatedJobs=_some(_NAME)),
        failurePolicy=_fields(
            "", maxRestarts=_NUMBER, restartStrategy={"enum": ["Recreate", "BlockingRecreate", "InPlaceRestart"]}
        ),
        suspend=_SWITCH,
        coordinator=_fields("replicatedJob", replicatedJob=_NAME, jobIndex=_NUMBER, podIndex=_NUMBER),
        ttlSecondsAfterFinished=_NUMBER,
    ),
)  # fmt: skip


def _options(command: str) -> dict[str, str]:
    words = shlex.split(command)
    return {word: words[i + 1] for i, word in enumerate(words) if word.startswith("--")}


def test_the_manifest_fits_the_schema_of_jobset():
    manifest = yaml.safe_load(MANIFEST)
    jsonschema.validate(manifest, JOB_SET)
    for wrong in ("completionMode: indexed", "paralelism: 2", "completions: two"):
        key = wrong.split(":")[0].replace("paralelism", "parallelism")
        broken = re.sub(rf"{key}: \S+", wrong, MANIFEST, count=1)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(yaml.safe_load(broken), JOB_SET)


def test_the_manifests_hosts_find_each_other(monkeypatch):
    manifest = yaml.safe_load(MANIFEST)
    (jobs,) = manifest["spec"]["replicatedJobs"]
    job, name = jobs["template"]["spec"], manifest["metadata"]["name"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    options = _options(container["args"][0])
    run = get_command(touchstone.app).commands["run"]  # type: ignore[attr-defined]
    assert set(options) - {"-o"} <= {name for option in run.params for name in option.opts}
    # Where JAX, by asking the cluster, would find the first host of this JobSet.
    labels = {"jobset.sigs.k8s.io/jobset-name": name}
    about = SimpleNamespace(name=f"{name}-{jobs['name']}-0", labels=labels)
    seen = {"_controller": SimpleNamespace(kind="Job"), "_job": SimpleNamespace(metadata=about), "_pod": None}
    for method, answer in seen.items():
        monkeypatch.setattr(K8sCluster, method, lambda answer=answer: answer)
    assert options["--coordinator"] == K8sCluster.get_coordinator_address(None, None)
    assert "subdomain" not in manifest["spec"]["network"]  # or the service would have another name
    assert options["--hosts"] == str(job["completions"]) == str(job["parallelism"])
    assert (options["--host"], job["completionMode"], jobs["replicas"]) == ("$JOB_COMPLETION_INDEX", "Indexed", 1)
    assert container["ports"] == [{"containerPort": int(options["--coordinator"].rpartition(":")[2])}]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert options["--directory"].startswith(mounts[pod["volumes"][0]["name"]] + "/")


def test_what_the_page_says_of_slurm_is_what_jax_reads(monkeypatch):
    named = set(re.findall(r"`(SLURM_\w+)`", PAGE))
    values = {"SLURM_JOB_ID": "4097", "SLURM_STEP_NODELIST": "gpu[017-020],login1"}
    for name in named:
        monkeypatch.setenv(name, values.get(name, "3"))
    assert SlurmCluster.is_env_present()
    assert SlurmCluster.get_coordinator_address(None, None) == "gpu017:61441"  # 61440 + job % 4096, as the page says
    assert SlurmCluster.get_local_process_id() == 3
    for name in named:
        with monkeypatch.context() as without:
            without.delenv(name)
            assert not SlurmCluster.is_env_present()


def test_the_script_of_the_page_names_what_there_is():
    (script,) = re.findall(r"cat > sample.py <<'EOF'\n(.*?)EOF", PAGE, re.DOTALL)
    called = [ast.unparse(node.func) for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call)]
    assert inspect.signature(inference.distributed).bind()  # without arguments, as there
    assert {"inference.distributed", "inference.HMC.paper", "inference.run", "models.resnet20_frn"} <= set(called)
