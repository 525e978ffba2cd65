-- Delete the transcription, if the job of the current output requested it.
delete from vlog.transcriptions as t using vlog.uploads as u
where u.id = %(id)s and u.job_id = %(version)s and t.video_id = u.id
  and (u.retranscode_metadata ->> 'delete_transcription')::boolean
