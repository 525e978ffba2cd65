"""Alerts outside the database: the doctor's rounds, and delivery by webhook.

The keeper creates alerts (posthouse.keeper.alerter); a worker of this package delivers them.
"""
