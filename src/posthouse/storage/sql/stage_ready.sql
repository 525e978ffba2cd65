-- A place for COPY, which takes no table under row-level security: gone by the end of the transaction.
create temporary table posthouse_staged on commit drop as
select @plain@
from posthouse.ready
with no data
