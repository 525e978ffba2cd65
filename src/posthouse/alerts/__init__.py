"""The doctor's periodic checks, and the delivery of alerts by webhook.

The keeper creates alerts and decides which ones are sent (posthouse.keeper.alerter). A worker of this package
delivers them.
"""
