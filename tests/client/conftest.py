"""Both clients, on the engine's database."""

import asyncio

import pytest

from posthouse import Client, SyncClient
from posthouse.settings import Settings
from support.tcp_proxy import TcpProxy


@pytest.fixture
def url(engine):
    return engine.url


@pytest.fixture
def proxy(url):
    with TcpProxy.for_url(url) as proxy:
        yield proxy


class SyncClientThread:
    """A SyncClient that is called like a Client: each call runs in a thread."""

    def __init__(self, client):
        self.client = client
        self.settings = client.settings

    def __getattr__(self, name):
        method = getattr(self.client, name)

        async def call(*args, **kwargs):
            return await asyncio.to_thread(method, *args, **kwargs)

        return call


@pytest.fixture(params=["async", "sync"])
async def make_client(request):
    """Makes a client of one kind or the other; they are closed afterwards."""
    made = []

    def make(url, **settings):
        settings = Settings(database_url=url, **settings)
        client = Client(settings=settings) if request.param == "async" else SyncClient(settings=settings)
        made.append(client)
        return client if request.param == "async" else SyncClientThread(client)

    yield make
    for client in made:
        if isinstance(client, SyncClient):
            client.close()
        else:
            await client.close()


@pytest.fixture
async def client(make_client, url):
    return make_client(url)


@pytest.fixture
async def proxied(make_client, proxy, url):
    """A client whose wire can be broken."""
    return make_client(proxy.url_for(url))
