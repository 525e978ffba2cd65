-- Drops the staging table, so that the transaction can create it again.
drop table pg_temp.posthouse_staged
