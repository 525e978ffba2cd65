-- Photos with their tags as JSON, the newest first; keyword: only photos with this tag, unless null.
select p.id, p.path, p.size, p.width, p.height, p.sha256, p.fault,
  coalesce((select json_group_array(json_object('keyword', t.keyword, 'source', t.source,
      'confidence', round(t.confidence, 3)))
    from (select * from tags where picture_id = p.id order by source desc, confidence desc, keyword) as t), '[]') as tags
from pictures as p
where :keyword is null or exists (select 1 from tags as t where t.picture_id = p.id and t.keyword = :keyword)
order by p.id desc limit :limit offset :offset
