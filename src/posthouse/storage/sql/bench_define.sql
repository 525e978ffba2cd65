-- Defines the kind of the benchmark's jobs, so that they are enqueued like those of an application.
select posthouse.announce('[{"key": "noop"}]')
