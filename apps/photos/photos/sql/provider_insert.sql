-- Insert a provider.
insert into providers (id, label, folder) values (:id, :label, :folder)
