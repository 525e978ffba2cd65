-- The photos with a keyword.
select distinct picture_id as id from tags where keyword = :keyword order by 1
