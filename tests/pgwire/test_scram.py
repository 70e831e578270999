import base64
import hashlib

import pytest

from hornbeam_server.pgwire.session import scram


def client_final(password, first_bare, server_first):
    """The answer of a client that knows the password, after RFC 5802."""
    fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
    salted = hashlib.pbkdf2_hmac(
        "sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
    )
    key = scram._hmac(salted, b"Client Key")
    without_proof = f"c=biws,r={fields['r']}"
    signed = f"{first_bare},{server_first.decode()},{without_proof}".encode()
    signature = scram._hmac(hashlib.sha256(key).digest(), signed)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def exchange(password, given, user=""):
    verifier = scram.verifier_of(password, b"0123456789abcdef")
    found = scram.Exchange(scram.read_verifier(str(verifier)), "server")
    first = found.first(b"n,,n=,r=client")
    return found.final(client_final(given, "n=,r=client", first))


def test_the_exchange_of_rfc_7677():
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    verifier = scram.verifier_of("pencil", salt)
    found = scram.Exchange(verifier, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = found.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = found.final(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_password_is_right_or_wrong():
    assert exchange("secret", "secret").startswith(b"v=")
    with pytest.raises(scram.ScramError):
        exchange("secret", "other")


@pytest.mark.parametrize(
    "message",
    [b"", b"p=tls-server-end-point,,n=,r=c", b"n,,n=", b"\xff", b"x,,n=,r=c"],
)
def test_a_first_message_that_is_none_is_refused(message):
    found = scram.Exchange(scram.verifier_of("secret", b"salt"), "server")
    with pytest.raises(scram.ScramError):
        found.first(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"c=biws,r=clientserver",
        b"c=biws,r=clientserver,p=!!",
        b"c=biws,r=clientserver,p=AAAA",
        b"c=eSws,r=clientserver,p=AAAA",
        b"c=biws,r=other,p=AAAA",
    ],
)
def test_a_final_message_that_is_none_is_refused(message):
    found = scram.Exchange(scram.verifier_of("secret", b"salt"), "server")
    found.first(b"n,,n=,r=client")
    with pytest.raises(scram.ScramError):
        found.final(message)


def test_a_user_that_does_not_exist_has_the_same_salt_each_time_and_no_password():
    verifiers = [scram.missing_verifier("x", b"secret of the server") for _ in range(2)]
    assert verifiers[0] == verifiers[1]
    assert verifiers[0].salt != scram.missing_verifier("y", b"secret of the server").salt
    found = scram.Exchange(verifiers[0], "server")
    first = found.first(b"n,,n=,r=client")
    with pytest.raises(scram.ScramError):
        found.final(client_final("", "n=,r=client", first))
