-- Raises an alert unless its fact is known.
select posthouse.raise_alert(%(type)s, %(tenant)s, %(subject)s, %(message)s, %(details)s, %(fact_key)s)
