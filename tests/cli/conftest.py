"""What tests of the command line share."""

from shop_package import shop

from commandline import connection, enqueue, fleet, no_database, offline, posthouse

__all__ = ["connection", "enqueue", "fleet", "no_database", "offline", "posthouse", "shop"]
