-- Keywords with the number of their photos, the most frequent first.
select keyword, count(distinct picture_id) as pictures from tags group by keyword order by 2 desc, 1 limit 200
