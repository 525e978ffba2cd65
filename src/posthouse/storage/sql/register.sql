-- Registers a worker.
select posthouse.register(
  %(id)s, %(name)s, %(hostname)s, %(pid)s, %(version)s, %(queues)s, %(kinds)s, %(concurrency)s,
  %(capabilities)s, %(metadata)s, %(offers)s, %(key)s, %(only_tenant)s, %(only_queues)s,
  make_interval(secs => %(offline_seconds)s), %(code)s)
