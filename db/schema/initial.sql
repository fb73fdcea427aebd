-- The objects of a new database that functions create: the first partitions, and the tables of every
-- projection, which belong to the worker's role.
select daybook.create_partitions(1);

set local role daybook_worker;
set local search_path = projection;
select daybook.create_projection(name) from daybook.projection;
set local search_path to default;
reset role;
