-- What a model has learned of a keyword.
insert into models (name, keyword, weights, pictures, accuracy)
values (:name, :keyword, :weights, :pictures, :accuracy)
