-- A list and the number of its photos.
select id, (select count(*) from list_pictures where list_id = lists.id) as pictures from lists where name = :name
