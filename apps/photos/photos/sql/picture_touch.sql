-- Update the timestamp of an unchanged file.
update pictures set size = :size, changed_ns = :changed_ns where id = :id
