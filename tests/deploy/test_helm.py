"""Test the chart as Helm renders it, against Kubernetes' schemas, the programs' options, and its values."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
from a_chart import Rendered, rendered

from equus.main import main as equus
from helen.tap import Options as HelenOptions

KUBERNETES = ("1.27", "1.34", "1.37")
JOINED = {
    "agent": {"join": "a.token", "policy": "[caps.cpu]\nallow = false\n", "settings": {"EQUUS_LOG_LEVEL": "warn"}}
}
TLS = {
    "server": {
        "tlsSecret": "web-tls", "names": ["helen.example"], "settings": {"HELEN_RINGS": "1%,100%"},
        "service": {"type": "LoadBalancer"}, "persistence": {"storageClass": "fast", "size": "200Gi"},
    },
    "agent": {"joinSecret": "from-vault", "hostPID": False, "hostPath": "/srv/equus"},
    "image": {"repository": "registry.example/helen-equus", "tag": "0.2.0"}, "imagePullSecrets": [{"name": "pull"}],
}  # fmt: skip
AGENTS = {"server": {"enabled": False}, "agent": {"server": "helen.example:4166", "join": "x"}}
SERVER = {"agent": {"enabled": False}}
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "two tokens": ({"agent": {"join": "a", "joinSecret": "b"}}, "agent.join and agent.joinSecret are both given"),
    "no server": ({"server": {"enabled": False}}, "the agent has no server: give agent.server=HOST:PORT"),
    "no port": ({"agent": {"server": "helen.example"}}, "at '/agent/server': 'helen.example' does not match"),
    "no value of ours": ({"server": {"replicas": 3}}, "at '/server': additional properties 'replicas' not allowed"),
    "no folder": ({"agent": {"hostPath": "equus"}}, "'equus' does not match pattern"),
    "a setting of others": ({"server": {"settings": {"PATH": "/x"}}}, "'PATH' does not match pattern"),
    "no size": ({"server": {"persistence": {"size": "much"}}}, "'much' does not match pattern"),
}


@pytest.fixture(scope="module")
def charts() -> dict[str, Rendered]:
    """Return the charts that Helm renders, made by one process for all tests."""
    asked = {"defaults": {}, "joined": JOINED, "tls": TLS, "agents": AGENTS, "server": SERVER}
    asked |= {name: values for name, (values, _) in FAULTS.items()}
    return dict(zip(asked, rendered(*asked.values()), strict=True))


def pod(chart: Rendered, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = chart.objects[kind]["spec"]["template"]["spec"]
    return found


def environment(chart: Rendered, kind: str) -> dict[str, Any]:
    """Return the variables of the container, with their values or where these come from."""
    [container] = pod(chart, kind)["containers"]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


@pytest.mark.parametrize("name", ["defaults", "joined", "tls", "agents", "server"])
def test_helm_and_kubernetes_accept_it(charts: dict[str, Rendered], name: str) -> None:
    """`helm lint --strict` finds nothing, and each object is valid for Kubernetes without an unknown field (20)."""
    assert (charts[name].error, charts[name].lint["errors"]) == ("", [])
    assert [each for each in charts[name].lint["messages"] if each["severity"] > 1] == []  # 1: there is no icon
    for version in KUBERNETES:
        for document in charts[name].objects.values():
            kubernetes_validate.validate(document, version, strict=True)


def test_a_field_that_kubernetes_lacks_would_be_seen(charts: dict[str, Rendered]) -> None:
    """A field that Kubernetes lacks is refused, so that the test above can fail (20)."""
    wrong = charts["defaults"].objects["Service"] | {"spec": {"ports": [{"prot": 4166}]}}
    with pytest.raises(kubernetes_validate.ValidationError, match="prot"):
        kubernetes_validate.validate(wrong, "1.34", strict=True)


@pytest.mark.parametrize("name", FAULTS)
def test_values_that_can_not_be_used_are_told(charts: dict[str, Rendered], name: str) -> None:
    """Helm refuses values that cannot be used, before anything reaches a cluster (20)."""
    assert FAULTS[name][1] in charts[name].error


def test_which_objects_there_are(charts: dict[str, Rendered]) -> None:
    """A part that is switched off leaves no object (20)."""
    kinds = {name: sorted(charts[name].objects) for name in ("defaults", "joined", "agents", "server")}
    assert kinds == {
        "defaults": ["DaemonSet", "Service", "StatefulSet"],
        "joined": ["ConfigMap", "DaemonSet", "Secret", "Service", "StatefulSet"],
        "agents": ["DaemonSet", "Secret"],
        "server": ["Service", "StatefulSet"],
    }


def test_the_server(charts: dict[str, Rendered]) -> None:
    """The server has one process, a volume that stays, its name in the cluster, and TLS where there is a secret
    (20).
    """
    plain, secured = environment(charts["defaults"], "StatefulSet"), environment(charts["tls"], "StatefulSet")
    assert (plain["HELEN_NAME"], plain["HELEN_STATE"]) == ("mon-helen.watch.svc", "/data/helen")
    assert secured["HELEN_NAME"] == "mon-helen.watch.svc,helen.example"
    assert (secured["HELEN_WEB_TLS"], secured["HELEN_RINGS"]) == ("/tls/tls.crt,/tls/tls.key", "1%,100%")
    spec = charts["tls"].objects["StatefulSet"]["spec"]
    [claim] = spec["volumeClaimTemplates"]
    assert (spec["replicas"], claim["spec"]["storageClassName"]) == (1, "fast")
    assert claim["spec"]["resources"] == {"requests": {"storage": "200Gi"}}
    [container] = pod(charts["tls"], "StatefulSet")["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "web", "scheme": "HTTPS"}
    assert container["image"] == "registry.example/helen-equus:0.2.0"
    assert pod(charts["tls"], "StatefulSet")["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def test_plain_http_does_not_leave_the_cluster(charts: dict[str, Rendered]) -> None:
    """A service for the outside has the web port only with TLS (20)."""
    outside = rendered({"server": {"service": {"type": "NodePort"}}})[0]
    seen = {"inside": charts["defaults"], "plain": outside, "tls": charts["tls"]}
    ports = {name: [port["port"] for port in chart.objects["Service"]["spec"]["ports"]] for name, chart in seen.items()}
    assert ports == {"inside": [4166, 4167], "plain": [4166], "tls": [4166, 4167]}


def test_the_agent(charts: dict[str, Rendered]) -> None:
    """The agent has the name of its node, the labels of the pod, and its token from a secret and not from its
    environment (20).
    """
    variables = environment(charts["joined"], "DaemonSet")
    assert variables["EQUUS_NAME"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert variables["EQUUS_SERVER"] == "mon-helen.watch.svc:4166"
    assert variables["EQUUS_LOG_LEVEL"] == "warn"
    assert environment(charts["agents"], "DaemonSet")["EQUUS_SERVER"] == "helen.example:4166"
    assert "a.token" not in str(charts["joined"].objects["DaemonSet"])
    assert charts["joined"].objects["Secret"]["stringData"] == {"token": "a.token"}
    volumes = {each["name"]: each for each in pod(charts["tls"], "DaemonSet")["volumes"]}
    assert volumes["join"]["secret"] == {"secretName": "from-vault", "defaultMode": 0o440}
    assert volumes["labels"]["downwardAPI"]["items"] == [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    ]
    assert [pod(charts[name], "DaemonSet")["hostPID"] for name in ("joined", "tls")] == [True, False]
    folders = [
        {each["name"]: each for each in pod(charts[name], "DaemonSet")["volumes"]}["state"]["hostPath"]["path"]
        for name in ("joined", "tls")
    ]
    assert folders == ["/var/lib/equus-watch.mon", "/srv/equus"]  # of this release, or as it is told
    assert "create secret generic equus-join" in charts["defaults"].notes
    assert "create secret" not in charts["joined"].notes


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_what_runs_is_confined(charts: dict[str, Rendered], kind: str) -> None:
    """Containers run without root and capabilities and write only to their volumes; the first one may chown (20)."""
    [container] = pod(charts["joined"], kind)["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "runAsNonRoot": True,
        "runAsUser": 4166, "runAsGroup": 4166, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert pod(charts["joined"], kind)["automountServiceAccountToken"] is False
    for first in pod(charts["joined"], kind).get("initContainers", ()):
        assert first["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]}


def test_every_variable_is_a_setting_of_the_program(charts: dict[str, Rendered]) -> None:
    """Each variable is a setting of the program, because a misspelt one would be passed over (20)."""
    known = {f"EQUUS_{each.name}".upper() for each in equus.params}
    assert [name for name in environment(charts["joined"], "DaemonSet") if name not in known] == []
    options = {f"HELEN_{name}".upper().replace("-", "_") for name in HelenOptions().longOpt}
    options = {name.rstrip("=") for name in options}
    assert [name for name in environment(charts["tls"], "StatefulSet") if name not in options] == []
