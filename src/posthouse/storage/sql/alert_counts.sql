-- How many alerts of each type were raised and suppressed, and how many messages were sent or failed.
select type, severity, raised, suppressed, sent, failed from posthouse.alert_types order by type
