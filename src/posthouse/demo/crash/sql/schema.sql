-- The effects of the demo's jobs. Without a unique key on purpose: a doubled effect would show.
create table crash_effects (number integer not null);
