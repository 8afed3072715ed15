"""Certificates that hold, and such that do not, made for one run by an authority of its own."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


class Certificates:
    """Of `target.example`: `good`, `expired`, `not_yet`, `wrong_name` and `self_signed`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate("authority.example", key, key, "authority.example", is_authority=True)
        self.authority = made.public_bytes(serialization.Encoding.PEM).decode()
        self._write("good", key)
        self._write("expired", key, begins=-2 * DAY)
        self._write("not_yet", key, begins=2 * DAY)
        self._write("wrong_name", key, name="other.example")
        self._write("self_signed", None)

    def context(self, name: str) -> ssl.SSLContext:
        """Return the server's side of a connection."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._folder / f"{name}.pem")
        return context

    def _write(
        self,
        file: str,
        authority: ec.EllipticCurvePrivateKey | None,
        *,
        name: str = "target.example",
        begins: timedelta = -DAY / 2,
    ) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = "authority.example" if authority else name
        made = _certificate(name, key, authority or key, issuer, begins=begins)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        both = private + made.public_bytes(serialization.Encoding.PEM)
        (self._folder / f"{file}.pem").write_bytes(both)


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    issuer: str,
    *,
    begins: timedelta = -DAY / 2,
    is_authority: bool = False,
) -> x509.Certificate:
    """Return a certificate that is good for a day."""
    begins_at = datetime.now(UTC) + begins
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins_at)
        .not_valid_after(begins_at + DAY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .sign(authority, hashes.SHA256())
    )
