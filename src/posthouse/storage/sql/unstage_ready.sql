-- Makes room for the next one in this transaction.
drop table pg_temp.posthouse_staged
