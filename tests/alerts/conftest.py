from dataclasses import replace

import pytest
from psycopg.rows import dict_row

from posthouse.keeper.alerter import Alerter
from posthouse.storage.connections import ReconnectingConnection
from support.engine import Engine


@pytest.fixture
def alerting(settings, receiver):
    """Settings that send alerts to the receiver."""
    return replace(settings, alert_webhook_url=receiver.url, alert_private_addresses=True)


@pytest.fixture
async def alerter(settings, request):
    connection = ReconnectingConnection(settings.database_url, "keeper")
    yield lambda **changes: Alerter(connection, replace(settings, **changes))
    await connection.close()


@pytest.fixture
def jobs(db, database):
    """The engine of this test's own database."""
    return Engine(db, database)


@pytest.fixture
def alerts(db):
    """The alerts so far, oldest first."""

    def look(*types):
        with db.cursor(row_factory=dict_row) as cursor:
            cursor.execute(
                "select * from posthouse.alerts "
                "where cardinality(%s::text[]) = 0 or type = any (%s) order by at, id",
                (list(types), list(types)),
            )
            return cursor.fetchall()

    return look
