-- The commands of the photo library, as definitions: what may be run, with which payload, and in which environment.
-- The library itself is files and a SQLite database for each tenant; there are no tables here.
--
-- Run again, it sets the definitions to what stands here.

do $$
declare
  -- What every command gets: where the library is, and nothing of the worker's environment but the usual.
  v_environment jsonb := '["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER",
    "PHOTOS_LIBRARY"]';
  v_prefix jsonb := '{"type": "string", "pattern": "^/", "maxLength": 1000}';
  v_model jsonb := '{"type": "string", "pattern": "^[a-z0-9-]{1,40}$"}';
  v_commands jsonb := jsonb_build_object(
    'photos.sync', jsonb_build_object(
      'description', 'Brings the library up to date with the folder of a provider, and tags what is new.',
      'properties', jsonb_build_object(
        'provider_id', '{"type": "string", "format": "uuid"}'::jsonb, 'path_prefix', v_prefix),
      'required', '["provider_id"]'::jsonb,
      'argv', '["--provider-id", "{payload.provider_id}", ["--path-prefix", "{payload.path_prefix?}"]]'::jsonb,
      'secrets', '{"PHOTOS_TOKEN": "photos-token"}'::jsonb),
    'photos.tag', jsonb_build_object(
      'description', 'Tags photos by what can be seen without training: colours, light, shape.',
      'properties', jsonb_build_object('path_prefix', v_prefix),
      'argv', '[["--path-prefix", "{payload.path_prefix?}"]]'::jsonb),
    'photos.train', jsonb_build_object(
      'description', 'Learns the keywords that photos are filed under.',
      'properties', jsonb_build_object(
        'model', v_model, 'min_photos', '{"type": "integer", "minimum": 2, "maximum": 10000}'::jsonb),
      'argv', '[["--model", "{payload.model?}"], ["--min-photos", "{payload.min_photos?}"]]'::jsonb),
    'photos.retag', jsonb_build_object(
      'description', 'Gives every photo the keywords that a trained model sees in it.',
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
