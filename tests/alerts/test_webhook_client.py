"""The webhook client: it reaches what it may, within its time, and tells no secrets."""

import asyncio
import hashlib
import hmac
import socket
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from posthouse.alerts.http_post import (
    AddressNotAllowed,
    DestinationMoved,
    DestinationRejected,
    PostOptions,
    Unreachable,
    is_allowed,
    post,
)
from posthouse.alerts.webhook import AlertMessage, WebhookSender
from posthouse.core.alerts import destinations
from posthouse.settings import Settings
from support.webhook_receiver import receiving

HERE = PostOptions(timeout=5, private=True)
MESSAGE = AlertMessage(
    id="0189", type="queue_stuck", severity="error", at=datetime(2026, 1, 2, tzinfo=UTC), tenant_id="acme",
    subject="mail", message="nothing moves <!channel> @everyone", suppressed_count=3,
    details={"queue": "mail"},
)  # fmt: skip


def send(url, options=HERE, body=b"{}"):
    return post(urlsplit(url), body, {"Content-Type": "application/json"}, options)


async def test_a_message_is_posted_and_the_response_is_returned(receiver):
    response = await send(receiver.url + "?a=b", body=b'{"x": 1}')
    assert (response.status, response.body) == (200, "ok")
    [got] = receiver.received
    assert (got.path, got.json) == ("/hooks/T0KEN-that-is-never-shown?a=b", {"x": 1})
    assert got.headers["Host"] == f"127.0.0.1:{receiver.port}"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_what_is_not_a_success_is_an_error_that_says_so(receiver, status):
    receiver.answers.append(status)
    with pytest.raises(DestinationRejected, match=f"status {status}: ok"):
        await send(receiver.url)


async def test_a_destination_that_is_gone_is_not_asked_again(receiver):
    receiver.answers.append(410)
    with pytest.raises(DestinationMoved):
        await send(receiver.url)


# Addresses.


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
        "169.254.169.254", "169.254.1.1", "100.64.0.1", "100.127.255.255", "100.100.100.200", "192.0.0.192",
        "168.63.129.16", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1",
        "::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "2002:7f00:1::", "2002:a00:1::1", "::127.0.0.1", "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "2001:db8::1",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused(address):
    assert not is_allowed(address, private=False)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_a_public_address_is_allowed(address):
    assert is_allowed(address, private=False)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "192.168.1.1", "100.64.0.1", "::1", "fd12::1", "::ffff:10.0.0.1"]
)
def test_private_ones_are_allowed_by_the_setting(address):
    assert is_allowed(address, private=True)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "169.254.1.1", "100.100.100.200", "fd00:ec2::254", "168.63.129.16", "224.0.0.1",
     "0.0.0.0", "255.255.255.255", "fe80::1", "::ffff:169.254.169.254"],
)  # fmt: skip
def test_metadata_and_addresses_of_no_host_are_never_allowed(address):
    assert not is_allowed(address, private=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "[::1]"])
async def test_no_spelling_leads_to_this_machine(receiver, host):
    with pytest.raises((AddressNotAllowed, Unreachable)) as caught:
        await send(f"http://{host}:{receiver.port}/x", PostOptions(timeout=5))
    assert receiver.received == []
    assert "not allowed" in str(caught.value) or "resolve" in str(caught.value)


def resolving(*answers):
    """A resolver that gives these lists of addresses, one a lookup."""
    left = list(answers)
    asked = []

    async def resolver(host, port):
        asked.append(host)
        return left.pop(0)

    resolver.asked = asked
    return resolver


async def test_one_private_address_among_public_ones_refuses_them_all(receiver):
    resolver = resolving(["93.184.216.34", "127.0.0.1"])
    with pytest.raises(AddressNotAllowed):
        await send(f"http://evil.test:{receiver.port}/", PostOptions(timeout=5, resolver=resolver))
    assert receiver.received == []


async def test_a_name_is_looked_up_once_so_it_cannot_be_bound_anew_in_between(receiver):
    """A second lookup would lead elsewhere; there is none, and the connection goes to what was checked."""
    resolver = resolving(["127.0.0.1"], ["127.0.0.2"])
    response = await send(
        f"http://hook.test:{receiver.port}/", PostOptions(timeout=5, private=True, resolver=resolver)
    )
    assert (response.status, resolver.asked) == (200, ["hook.test"])
    assert receiver.received[0].headers["Host"] == f"hook.test:{receiver.port}"


async def test_the_next_address_is_tried_when_one_does_not_answer(receiver):
    resolver = resolving(["127.0.0.99", "127.0.0.1"])
    response = await send(
        f"http://hook.test:{receiver.port}/", PostOptions(timeout=5, private=True, resolver=resolver)
    )
    assert response.status == 200


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(receiver, status):
    def redirect(handler):
        handler.send_response(status)
        handler.send_header("Location", receiver.url + "/secret")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    receiver.answers.append(redirect)
    with pytest.raises(DestinationMoved, match="not followed"):
        await send(receiver.url)
    assert len(receiver.received) == 1


# Time and size.


@contextmanager
def scripted(script):
    """A server that does what the script says with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            try:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65536)
                    script(connection)
            except OSError:
                pass  # the client hung up, or the test is over

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    thread.join(10)


def drip(text):
    def script(connection):
        for byte in text:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)

    return script


@pytest.mark.parametrize(
    "script",
    [
        drip(b"HTTP/1.1 200 OK\r\n" + b"X-Slow: 1\r\n" * 200),
        lambda connection: connection.recv(1),
        drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    ],
    ids=["headers byte by byte", "silence", "announcements for ever"],
)
async def test_a_destination_that_takes_its_time_is_left_when_the_time_is_over(script):
    with scripted(script) as url, pytest.raises(Unreachable, match=r"no response within 0\.3 s"):
        await send(url, PostOptions(timeout=0.3, private=True))


async def test_a_lookup_that_hangs_counts_too():
    async def hanging(host, port):
        await asyncio.sleep(3600)

    with pytest.raises(Unreachable, match="within"):
        await send("http://slow.test/", PostOptions(timeout=0.1, resolver=hanging))


async def test_a_body_without_end_is_not_read():
    sent = []

    def flood(connection):
        connection.sendall(b"HTTP/1.1 500 Oops\r\n\r\n")
        while len(sent) < 10_000:
            connection.sendall(b"x" * 65536)
            sent.append(1)

    with scripted(flood) as url, pytest.raises(DestinationRejected) as caught:
        await send(url)
    assert len(str(caught.value)) < 3_000
    assert len(sent) < 1_000


async def test_a_success_is_one_though_its_body_never_comes():
    def script(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        connection.recv(1)

    with scripted(script) as url:
        assert (await send(url)).status == 200


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 20", b"\x00" * 100_000,
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 50_000,
    ],
    ids=["nothing", "not HTTP", "half a head", "noise", "a head without end"],
)  # fmt: skip
async def test_what_is_no_answer_is_an_error(answer):
    def script(connection):
        connection.sendall(answer)

    with scripted(script) as url, pytest.raises(Unreachable):
        await send(url)


async def test_a_closed_port_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(Unreachable, match="ConnectionRefusedError"):
        await send(f"http://127.0.0.1:{port}/")


# TLS.


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A certificate for hook.test, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hook.test",
         "-addext", "subjectAltName=DNS:hook.test", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture
def secure(certificate):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with receiving(tls=tls) as receiver:
        yield receiver


def trusting(certificate, *addresses):
    tls = ssl.create_default_context(cafile=certificate / "cert.pem")
    return PostOptions(timeout=5, private=True, resolver=resolving(list(addresses)), tls=tls)


async def test_the_certificate_is_that_of_the_name_while_the_connection_goes_to_the_address(
    secure, certificate
):
    response = await send(f"https://hook.test:{secure.port}/x", trusting(certificate, "127.0.0.1"))
    assert response.status == 200
    assert secure.received[0].headers["Host"] == f"hook.test:{secure.port}"


async def test_a_certificate_of_another_name_is_refused(secure, certificate):
    with pytest.raises(Unreachable, match="invalid certificate"):
        await send(f"https://other.test:{secure.port}/x", trusting(certificate, "127.0.0.1"))
    assert secure.received == []


async def test_an_untrusted_certificate_is_rejected(secure):
    options = PostOptions(timeout=5, private=True, resolver=resolving(["127.0.0.1"]))
    with pytest.raises(Unreachable, match="invalid certificate"):
        await send(f"https://hook.test:{secure.port}/x", options)
    assert secure.received == []


# What is sent.


def sender(receiver, shape="", **settings):
    url = receiver.url if not shape else f"{shape}+{receiver.url}"
    chosen = Settings(alert_webhook_url=url, alert_private_addresses=True, **settings)
    made = WebhookSender(chosen)
    [destination] = made.destinations.values()
    return lambda: made.send(MESSAGE, destination)


async def test_an_ordinary_destination_gets_plain_json(receiver):
    await sender(receiver)()
    [got] = receiver.received
    assert got.json == {
        "version": 1, "id": "0189", "type": "queue_stuck", "severity": "error",
        "at": "2026-01-02T00:00:00+00:00", "tenant_id": "acme", "subject": "mail",
        "message": "nothing moves <!channel> @everyone", "suppressed_count": 3, "details": {"queue": "mail"},
    }  # fmt: skip
    assert got.headers["Content-Type"] == "application/json"
    assert got.headers["Posthouse-Alert"] == "0189"
    assert "Posthouse-Signature" not in got.headers


async def test_slack_format_does_not_mention_users_named_in_an_error_message(receiver):
    await sender(receiver, "slack")()
    [got] = receiver.received
    assert got.json["text"] == (
        "*error: queue stuck*\nnothing moves &lt;!channel&gt; @everyone (and 3 more suppressed)"
    )
    assert {"title": "queue", "value": "mail", "short": True} in got.json["attachments"][0]["fields"]


async def test_discord_format_does_not_mention_users_named_in_an_error_message(receiver):
    await sender(receiver, "discord")()
    [got] = receiver.received
    assert got.json["allowed_mentions"] == {"parse": []}
    [embed] = got.json["embeds"]
    assert embed["title"] == "error: queue stuck"
    assert {"name": "tenant", "value": "acme", "inline": True} in embed["fields"]


async def test_a_signature_covers_the_time_and_the_body(receiver):
    await sender(receiver, alert_webhook_secret="s3cret-s3cret")()
    [got] = receiver.received
    stamp, given = (part.partition("=")[2] for part in got.headers["Posthouse-Signature"].split(","))
    wanted = hmac.new(b"s3cret-s3cret", stamp.encode() + b"." + got.body, hashlib.sha256).hexdigest()
    assert given == wanted
    assert abs(int(stamp) - time.time()) < 60


async def test_an_answer_that_repeats_the_url_or_the_secret_does_not_show_them(receiver):
    def echo(handler):
        text = f"{receiver.url} {handler.path} T0KEN-that-is-never-shown s3cret-s3cret"
        handler.send_response(500)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text.encode())

    receiver.answers.append(echo)
    with pytest.raises(DestinationRejected) as caught:
        await sender(receiver, alert_webhook_secret="s3cret-s3cret")()
    assert "T0KEN" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_destination_does_not_show_its_url_when_printed(receiver):
    assert "T0KEN" not in repr(destinations(receiver.url))
