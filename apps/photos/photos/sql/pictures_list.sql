-- All photos with their tags as JSON.
select p.path, p.width, p.height, p.fault,
  coalesce((select json_group_array(json_object('keyword', t.keyword, 'source', t.source,
      'confidence', round(t.confidence, 3)))
    from (select * from tags where picture_id = p.id order by source, confidence desc, keyword) as t), '[]') as tags
from pictures as p order by p.path
