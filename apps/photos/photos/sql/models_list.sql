-- The trained models with their keywords and accuracy as JSON.
select name, features_of, json_group_object(keyword, round(accuracy, 3)) as keywords from models
group by name, features_of order by name
