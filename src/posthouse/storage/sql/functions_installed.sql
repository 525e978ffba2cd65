-- The version of Posthouse that installed the functions, and their digest.
select version, digest from posthouse.installed_functions
