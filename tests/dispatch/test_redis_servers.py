"""Redis behind TLS and an ACL, behind a Sentinel, and as a cluster."""

import datetime as dt
import ipaddress
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace

import psycopg
import pytest
from bench.redis_server import MISSING, PROGRAM, RedisServer, free_port
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from posthouse.dispatch import Redis
from posthouse.dispatch.streams import LEASE
from posthouse.errors import RedisUnavailable
from posthouse.insights.doctor import run_check
from posthouse.server.live.publisher import Publisher
from posthouse.server.live.subscriptions import StreamEvent
from support.dispatch_conformance import Runs
from support.waiting import eventually, eventually_sync
from support.workers import job_row, running_worker

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

RIGHTS = (
    "~{posthouse}*", "&{posthouse}:notifications", "&progress:*", "&complete:*", "&worker_status",
    "+@stream", "+@connection", "+set", "+get", "+del", "+incr", "+expire", "+pexpire", "+info",
    "+publish", "+subscribe", "+pubsub",
)  # fmt: skip
"""Those that docs/redis.md names."""


def certificate(folder):
    """Write a certificate for 127.0.0.1 that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "redis")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "redis.pem").write_bytes(made.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "redis.key").write_bytes(private)
    return folder / "redis.pem", folder / "redis.key"


@asynccontextmanager
async def dispatching(settings, db, url):
    """A worker on this Redis, which starts and cancels jobs; the doctor finds it well."""
    mode = {"dispatch": "redis", "redis_url": url}
    rarely = {"poll_seconds": 3600, "heartbeat_seconds": 600, "lease_seconds": 1200}
    runs = Runs(settings)
    async with runs.app, running_worker(runs.app, **rarely, **mode):
        await (await runs.note.enqueue(number=1)).wait(80)
        job = await runs.hold.enqueue()
        await eventually(lambda: job_row(db, job.id)["status"] == "running", what="a running job")
        db.execute("select posthouse.cancel(%s)", (job.id,))
        await eventually(lambda: job_row(db, job.id)["status"] == "canceled", what="a canceled job")
        async with await psycopg.AsyncConnection.connect(
            settings.database_url, autocommit=True
        ) as connection:
            found = await run_check(connection, replace(settings, **mode), "dispatch")
        assert "uses unknown" not in found.summary
        assert (found.severity, "relay" in found.summary) == ("ok", True)
        yield runs


async def test_dispatch_works_over_tls_with_a_user_of_an_acl(settings, db, tmp_path):
    pem, key = certificate(tmp_path)
    tls = ("--tls-cert-file", str(pem), "--tls-key-file", str(key), "--tls-ca-cert-file", str(pem))
    login = {"ssl": True, "ssl_ca_certs": str(pem)}
    users = ("--user", "posthouse", "on", ">a:secret", *RIGHTS)
    with RedisServer(*tls, "--tls-auth-clients", "no", *users, login=login) as server:
        address = f"127.0.0.1:{server.port}/0?ssl_ca_certs={pem}"
        async with dispatching(settings, db, f"rediss://posthouse:a%3Asecret@{address}"):
            pass
        for url, reason in {
            f"rediss://posthouse:wrong@{address}": "invalid username-password pair",
            f"rediss://posthouse:a%3Asecret@127.0.0.1:{server.port}/0": "CERTIFICATE_VERIFY_FAILED",
        }.items():
            stranger = Redis(url, 5)
            with pytest.raises(RedisUnavailable, match=reason):
                await stranger.ping()
            await stranger.close()


@pytest.mark.soak
async def test_dispatch_follows_the_master_that_sentinel_names(settings, db, tmp_path):
    with ExitStack() as stack:
        master = stack.enter_context(RedisServer())
        replica = stack.enter_context(RedisServer("--replicaof", "127.0.0.1", str(master.port)))
        file = tmp_path / "sentinel.conf"
        file.write_text(
            f"sentinel monitor main 127.0.0.1 {master.port} 1\n"
            "sentinel down-after-milliseconds main 300\nsentinel failover-timeout main 3000\n"
        )
        sentinel = stack.enter_context(RedisServer("--sentinel", file=file))
        with replica.client() as client:
            eventually_sync(
                lambda: client.info("replication")["master_link_status"] == "up", what="a replica"
            )
        with sentinel.client() as client:
            eventually_sync(lambda: client.sentinel_slaves("main"), what="a replica that Sentinel knows")
        url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{sentinel.port}/main/0"  # the first one is down
        async with dispatching(settings, db, url) as runs:
            master.kill()
            with replica.client() as client:
                await eventually(
                    lambda: client.exists(LEASE) and client.role()[0] == "master", what="a relay"
                )
            await (await runs.note.enqueue(number=1)).wait(60)


@pytest.mark.soak
async def test_dispatch_works_on_a_cluster(settings, db, tmp_path):
    with ExitStack() as stack:
        nodes = []
        for number in range(3):
            options = {
                "enabled": "yes",
                "config-file": str(tmp_path / f"{number}.conf"),
                "port": str(free_port()),
            }
            words = [word for name, value in options.items() for word in (f"--cluster-{name}", value)]
            nodes.append(stack.enter_context(RedisServer(*words)))
        clients = [stack.enter_context(node.client()) for node in nodes]
        for number, client in enumerate(clients):
            first, last = number * 16384 // 3, (number + 1) * 16384 // 3 - 1
            client.execute_command("CLUSTER", "ADDSLOTS", *range(first, last + 1))
            bus = clients[0].config_get("cluster-port")["cluster-port"]
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, bus)

        def is_up(client):
            facts = client.execute_command("CLUSTER", "INFO")
            return "cluster_state:ok" in facts and "cluster_known_nodes:3" in facts

        eventually_sync(lambda: all(map(is_up, clients)), what="a cluster")
        url = f"redis+cluster://127.0.0.1:{nodes[0].port}"
        async with dispatching(settings, db, url):
            redis = Redis(url, 5)
            publisher = Publisher(None, redis)
            assert not await publisher._has_subscribers()
            with clients[0].pubsub() as pubsub:
                pubsub.subscribe("worker_status")
                await eventually(pubsub.get_message, what="a subscription")
                assert await publisher._has_subscribers()
                await publisher._send([StreamEvent("worker", b"{}")])
                assert (await eventually(pubsub.get_message, what="a message"))["data"] == "{}"
            await redis.close()
