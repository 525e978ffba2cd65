-- The secret of signed links.
select secret from posthouse.link_secret
