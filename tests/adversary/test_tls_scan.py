"""Test every version of TLS and every suite of OpenSSL, one at a time, at Helen's port for agents."""

from __future__ import annotations

import re
import subprocess

import pytest
from helen_running import Running

pytestmark = pytest.mark.integration
OLD_VERSIONS = ("-tls1", "-tls1_1")  # Debian's OpenSSL has no SSL 3 any more
EVERYTHING = "ALL:COMPLEMENTOFALL:@SECLEVEL=0"
NEW_SUITES = (
    "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256", "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256",
)  # fmt: skip
STRONG = {
    "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305",
    *NEW_SUITES[:3],
}  # fmt: skip


def suites() -> list[str]:
    """Return the names of the suites before TLS 1.3, those without encryption or without a certificate among them."""
    words = ["openssl", "ciphers", "-tls1_2", EVERYTHING]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [name for name in said.strip().split(":") if not name.startswith("TLS_")]


class Scanner:
    """Shakes hands by OpenSSL's own client, as the agent web-1, whose certificate Helen takes."""

    def __init__(self, fleet: Running) -> None:
        identity = fleet.folder / "web-1"
        self._words = ["openssl", "s_client", "-connect", fleet.run["agents"], "-cert", str(identity / "agent.pem")]
        self._words += ["-key", str(identity / "agent.key")]

    def agreed(self, *offer: str) -> str | None:
        """Return the suite that was agreed on with this offer; None if there was none."""
        ran = subprocess.run(
            [*self._words, *offer], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
            timeout=60, check=False,
        )  # fmt: skip
        found = re.search(r"Cipher is (\S+)", ran.stdout)
        assert found is not None, ran.stderr
        return None if found[1] == "(NONE)" else found[1]


@pytest.fixture(scope="module")
def scanner(fleet: Running) -> Scanner:
    return Scanner(fleet)


@pytest.mark.adversary(22)
def test_every_version_and_suite(scanner: Scanner) -> None:
    """Helen accepts TLS 1.2 and 1.3 alone, with forward secrecy and authenticated encryption."""
    assert [scanner.agreed(version, "-cipher", EVERYTHING) for version in OLD_VERSIONS] == [None, None]
    before = suites()
    assert len(before) > 50
    assert {"ECDHE-ECDSA-NULL-SHA", "AECDH-NULL-SHA", "AES128-SHA", "ECDHE-ECDSA-AES256-SHA384"} <= set(before)
    taken = {scanner.agreed("-tls1_2", "-cipher", f"{suite}:@SECLEVEL=0") for suite in before}
    taken |= {scanner.agreed("-tls1_3", "-ciphersuites", suite) for suite in NEW_SUITES}
    assert taken - {None} == STRONG
