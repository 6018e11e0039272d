"""Makes the SBOM of a release (CycloneDX 1.6, JSON) from a lock: what an installation by this lock consists of."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from lock import Pin
from packageurl import PackageURL

OURS = "helen-equus"


def component_of(pin: Pin) -> Component:
    """Return a package as a component. It has a hash for each file of that version, and pip installs one of them."""
    purl = PackageURL("pypi", None, pin.name, pin.version)
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=content) for content in pin.hashes]
    files = ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(str(purl)), hashes=hashes)
    return Component(
        type=ComponentType.LIBRARY, name=pin.name, version=pin.version, purl=purl, bom_ref=str(purl),
        external_references=[files], description=f"where {pin.marker}" if pin.marker else None,
    )  # fmt: skip


def make_sbom(wheel: Path, version: str, pins: list[Pin]) -> str:
    """Return the SBOM of a wheel that is installed with these packages. Raises ValueError if it breaks the schema."""
    content = HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(wheel.read_bytes()).hexdigest())
    purl = PackageURL("pypi", None, OURS, version)
    ours = Component(
        type=ComponentType.APPLICATION, name=OURS, version=version, purl=purl, bom_ref=str(purl), hashes=[content],
        supplier=OrganizationalEntity(name=OURS),
    )  # fmt: skip
    parts = {pin.name: component_of(pin) for pin in pins}
    bom = Bom(components=parts.values())
    bom.metadata.component = ours
    for name, part in ({OURS: ours} | parts).items():
        needs = [parts[pin.name] for pin in pins if name in pin.needed_by and pin.name != name]
        bom.register_dependency(part, needs)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    if fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"the SBOM breaks the schema of CycloneDX 1.6: {fault}")
    return text
