-- SPDX-License-Identifier: Apache-2.0
-- A long while of inserting, indexing, joining, sorting, grouping.
CREATE TABLE part (id INTEGER PRIMARY KEY, name TEXT, weight REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO part SELECT i, printf('part-%d', i * 7919 % 100003), i * 0.5 FROM n;
CREATE INDEX part_name ON part (name);
SELECT count(*), max(total) FROM (
    SELECT substr(a.name, 6, 2) AS family, sum(a.weight * b.weight) AS total
    FROM part a JOIN part b ON b.name = 'part-' || (a.id % 1000) GROUP BY family ORDER BY total DESC);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000)
SELECT count(*) FROM n JOIN part p ON p.id = 1 + n.i % 200000 WHERE p.name LIKE '%7_1%';
