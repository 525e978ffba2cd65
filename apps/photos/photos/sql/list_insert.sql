-- A new list, unless there is one with this name.
insert into lists (id, name) values (:id, :name) on conflict (name) do nothing
