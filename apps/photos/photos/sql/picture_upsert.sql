-- Insert or update a photo.
insert into pictures (provider_id, path, size, changed_ns, sha256, model, width, height, features, fault)
values (:provider_id, :path, :size, :changed_ns, :sha256, :model, :width, :height, :features, :fault)
on conflict (provider_id, path) do update set
  size = excluded.size, changed_ns = excluded.changed_ns, sha256 = excluded.sha256, model = excluded.model,
  width = excluded.width, height = excluded.height, features = excluded.features, fault = excluded.fault
