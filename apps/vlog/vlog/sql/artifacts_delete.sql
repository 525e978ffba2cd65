-- Delete the artifacts of a job whose output is in the library, and its source, which is in the uploads folder.
delete from posthouse.artifacts where job_id = %(version)s
