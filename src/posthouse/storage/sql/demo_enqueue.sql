-- Enqueue a demo of an application; while one with the same subject is active, that job is returned. A demo that failed is not
-- retried: its error is shown at once.
select posthouse.enqueue(%(kind)s, %(payload)s::jsonb, tenant_id => %(tenant)s, queue => 'demo', max_attempts => 1,
  dedupe_key => %(subject)s, subject => %(subject)s, correlation_id => %(subject)s, created_by => %(actor)s)
