-- A photo of a list.
insert into list_pictures (list_id, picture_id) select id, :picture_id from lists where name = :name
on conflict do nothing
