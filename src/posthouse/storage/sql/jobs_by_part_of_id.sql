-- Jobs whose id starts or ends with some digits, newest first. A prefix is a range of ids. For a suffix the newest
-- ids of each table are read by index, at most so many: an index by suffix would cost every insert into history.
with found as (
  (select id from posthouse.jobs
   where id between %(lowest)s::uuid and %(highest)s::uuid
   order by id desc
   limit %(limit)s)
  union
  (select id from (
     (select id from posthouse.ready order by id desc limit %(searched)s)
     union all
     (select id from posthouse.waiting order by id desc limit %(searched)s)
     union all
     (select id from posthouse.running order by id desc limit %(searched)s)
     union all
     (select id from posthouse.history order by id desc limit %(searched)s)) as newest
   where right(id::text, length(%(suffix)s::text)) = %(suffix)s::text
   limit %(limit)s)
)
select id, kind, status from posthouse.jobs
where id = any (array(select id from found))
order by id desc
limit %(limit)s
