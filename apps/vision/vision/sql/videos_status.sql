-- Which of these videos exist, with their status.
select v.id, v.status from vision.videos as v where v.id = any (%(ids)s::uuid[])
