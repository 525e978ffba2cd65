-- Forgets the transcription, if that was asked for with the job whose output is shown.
delete from vlog.transcriptions as t using vlog.uploads as u
where u.id = %(id)s and u.job_id = %(version)s and t.video_id = u.id
  and (u.retranscode_metadata ->> 'delete_transcription')::boolean
