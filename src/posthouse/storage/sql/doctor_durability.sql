-- Settings without which accepted jobs can be lost or damaged in a crash.
select current_setting('fsync')::boolean as fsync,
       current_setting('full_page_writes')::boolean as full_page_writes,
       current_setting('synchronous_commit') as synchronous_commit
