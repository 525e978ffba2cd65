-- A file that was touched and says the same.
update pictures set size = :size, changed_ns = :changed_ns where id = :id
