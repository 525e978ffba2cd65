-- Posts open alerts, or suppresses them during the cool-down of their type and subject; returns the posted ones.
select a.type, t.severity, a.tenant_id, a.subject, a.message, a.held_back
from posthouse.post_alerts(
  %(types)s, %(destinations)s, make_interval(secs => %(cooldown)s), %(most)s, %(attempts)s) as a
join posthouse.alert_types as t on t.type = a.type
