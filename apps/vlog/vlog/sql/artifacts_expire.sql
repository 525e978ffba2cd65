-- Delete the artifacts of transcodings that ended some time ago and were not published. The source of a video is in the
-- uploads folder, from which it can be transcoded again.
delete from posthouse.artifacts as a using posthouse.jobs as j
where j.id = a.job_id and j.kind = 'vlog.transcode'
  and j.finished_at < posthouse.now() - make_interval(secs => %(seconds)s)
