-- The commands of the photo library as job definitions: arguments, payload schema and environment. The library itself
-- is a folder and a SQLite database per tenant; there are no tables here.
--
-- Idempotent: running it again resets the definitions.

do $$
declare
  -- Environment variables that every command inherits from the worker.
  v_environment jsonb := '["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER",
    "PHOTOS_LIBRARY", "PHOTOS_MODEL"]';
  v_prefix jsonb := '{"type": "string", "pattern": "^/", "maxLength": 1000}';
  v_model jsonb := '{"type": "string", "pattern": "^[a-z0-9-]{1,40}$"}';
  v_commands jsonb := jsonb_build_object(
    'photos.sync', jsonb_build_object(
      'description', 'Sync the library with the folder of a provider and tag new photos.',
      'properties', jsonb_build_object(
        'provider_id', '{"type": "string", "format": "uuid"}'::jsonb, 'path_prefix', v_prefix),
      'required', '["provider_id"]'::jsonb,
      'argv', '["--provider-id", "{payload.provider_id}", ["--path-prefix", "{payload.path_prefix?}"]]'::jsonb,
      'secrets', '{"PHOTOS_TOKEN": "photos-token"}'::jsonb,
      'emits', 'images.ingest.completed'),
    'photos.connect', jsonb_build_object(
      'description', 'Register a folder inside the library of the tenant as a provider.',
      'properties', '{"folder": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9 _-]{0,99}$"}}'::jsonb,
      'required', '["folder"]'::jsonb,
      'argv', '["--folder", "{payload.folder}"]'::jsonb,
      'secrets', '{"PHOTOS_TOKEN": "photos-token"}'::jsonb,
      'emits', 'provider.connection.changed'),
    'photos.create-list', jsonb_build_object(
      'description', 'List the photos with a keyword under a name.',
      'properties', '{"name": {"type": "string", "pattern": "^[^-]", "maxLength": 100},
        "keyword": {"type": "string", "pattern": "^[^-]", "maxLength": 100}}'::jsonb,
      'required', '["name", "keyword"]'::jsonb,
      'argv', '["--name", "{payload.name}", "--keyword", "{payload.keyword}"]'::jsonb,
      'emits', 'list.created'),
    'photos.tag', jsonb_build_object(
      'description', 'Tag photos by color, brightness and shape, without a trained model.',
      'properties', jsonb_build_object('path_prefix', v_prefix),
      'argv', '[["--path-prefix", "{payload.path_prefix?}"]]'::jsonb),
    'photos.train', jsonb_build_object(
      'description', 'Train a model with the folder names as keywords.',
      'properties', jsonb_build_object(
        'model', v_model, 'min_photos', '{"type": "integer", "minimum": 2, "maximum": 10000}'::jsonb),
      'argv', '[["--model", "{payload.model?}"], ["--min-photos", "{payload.min_photos?}"]]'::jsonb),
    'photos.retag', jsonb_build_object(
      'description', 'Tag all photos with the keywords of a trained model.',
      'properties', jsonb_build_object('model', v_model),
      'argv', '[["--model", "{payload.model?}"]]'::jsonb));
  v_key text;
  v_is jsonb;
  v_fields jsonb;
begin
  for v_key, v_is in select * from jsonb_each(v_commands) loop
    v_fields := jsonb_build_object(
      'runner', 'command',
      'description', v_is -> 'description',
      'queue', 'photos',
      'timeout_seconds', 3600,
      'max_attempts', 3,
      'schema', jsonb_build_object(
        'type', 'object', 'properties', v_is -> 'properties', 'required', coalesce(v_is -> 'required', '[]'),
        'additionalProperties', false),
      'command', jsonb_build_object(
        'argv', jsonb_build_array('photos', split_part(v_key, '.', 2), '--tenant-id', '{tenant_id}', '--progress')
          || (v_is -> 'argv'),
        'inherit_env', v_environment,
        'secrets', coalesce(v_is -> 'secrets', '{}'),
        'emits', v_is -> 'emits',
        'progress', 'lines',
        'result', 'json'));
    if posthouse.change_definition(v_key, v_fields, p_actor => 'photos') is null then
      perform posthouse.create_definition(v_key, v_fields, 'photos');
    end if;
  end loop;
  perform posthouse.set_limit('photos: one at a time for each tenant', jsonb_build_object(
    'kinds', (select jsonb_agg(k order by k) from jsonb_object_keys(v_commands) as k),
    'per', 'tenant', 'max_running', 1), 'photos');
end $$;
