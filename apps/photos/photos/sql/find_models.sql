-- What a model has learned.
select keyword, weights from models where name = :name order by keyword
