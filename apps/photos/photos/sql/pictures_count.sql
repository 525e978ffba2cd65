-- The number of photos; keyword: only photos with this tag, unless null.
select count(*) as total from pictures as p
where :keyword is null or exists (select 1 from tags as t where t.picture_id = p.id and t.keyword = :keyword)
