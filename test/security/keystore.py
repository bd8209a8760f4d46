"""A keystore as `ros2 security create_keystore` and `create_enclave` make it, by openssl alone."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from policies import Grant, governance_xml, permissions_xml

_DAY_S = 86400
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def make_keystore(folder: Path, domain_id: int, enclaves: dict[str, set[Grant]]) -> Path:
    """Make a keystore with these enclaves and their permissions, valid for a few days; return its folder."""
    enclaves_folder = folder / "enclaves"
    enclaves_folder.mkdir(parents=True)
    certificate, key = folder / "ca.cert.pem", folder / "ca.key.pem"
    _openssl("req", "-x509", *_NEW_KEY, "-subj", "/CN=sros2CA", "-days", "9", "-keyout", key, "-out", certificate)
    governance = enclaves_folder / "governance.xml"
    governance.write_text(governance_xml(domain_id), encoding="utf-8")
    for path, grants in enclaves.items():
        enclave = enclaves_folder / path.lstrip("/")
        enclave.mkdir(parents=True)
        _certify(enclave, path, certificate, key)
        permissions = enclave / "permissions.xml"
        permissions.write_text(permissions_xml(path, grants, domain_id, _validity()), encoding="utf-8")
        for plain, signed in ((governance, "governance.p7s"), (permissions, "permissions.p7s")):
            _openssl(
                *("smime", "-sign", "-text", "-in", plain, "-out", enclave / signed),
                *("-signer", certificate, "-inkey", key),
            )
        for authority in ("identity_ca", "permissions_ca"):
            (enclave / f"{authority}.cert.pem").write_bytes(certificate.read_bytes())
    return folder


def _certify(enclave: Path, path: str, certificate: Path, key: Path) -> None:
    name = path.replace("/", "\\/")
    request, extensions = enclave / "request.pem", enclave / "extensions"
    extensions.write_text("basicConstraints=CA:FALSE\n", encoding="utf-8")
    _openssl("req", "-new", *_NEW_KEY, "-subj", f"/CN={name}", "-keyout", enclave / "key.pem", "-out", request)
    _openssl(
        *("x509", "-req", "-in", request, "-CA", certificate, "-CAkey", key, "-CAcreateserial", "-days", "8"),
        *("-extfile", extensions, "-out", enclave / "cert.pem"),
    )


def _validity() -> tuple[str, str]:
    begin, end = (time.gmtime(time.time() + days * _DAY_S) for days in (-1, 7))
    return time.strftime("%Y-%m-%dT%H:%M:%S", begin), time.strftime("%Y-%m-%dT%H:%M:%S", end)


def _openssl(*arguments: str | Path) -> None:
    # Without the libraries of the ROS wheels, among which is an older OpenSSL.
    result = subprocess.run(
        ["openssl", *map(str, arguments)], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin:/usr/local/bin"}
    )
    assert result.returncode == 0, f"openssl {arguments[0]}: {result.stderr}"
