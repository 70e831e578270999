"""Certificates for tests, made by openssl: an authority, and what it signs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


class Authority:
    """A certificate authority in a folder. Needs the program openssl."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        if shutil.which("openssl") is None:
            raise RuntimeError("These tests make certificates with openssl: apt install openssl")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.certificate, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", f"/CN={name}", "-days", "2"),
            *("-keyout", str(self._key), "-out", str(self.certificate)),
        )

    def signed(self, name: str, *names: str, days: int = 1) -> tuple[Path, Path]:
        """Files of a certificate for `names` ("DNS:x", "IP:y") and of its private key."""
        request, key = self._folder / f"{name}.csr", self._folder / f"{name}.key"
        certificate, extensions = self._folder / f"{name}.pem", self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={','.join(names)}\n" if names else "")
        self._openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request)),
        )
        self._openssl(
            *("x509", "-req", "-in", str(request), "-out", str(certificate)),
            *("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial"),
            *("-days", str(days), "-extfile", str(extensions)),
        )
        return certificate, key

    def encrypted(self, key: Path) -> Path:
        """`key` with a password."""
        locked = key.with_suffix(".locked")
        command = ("ec", "-aes256", "-passout", "pass:x", "-in", str(key), "-out", str(locked))
        self._openssl(*command)
        return locked

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
