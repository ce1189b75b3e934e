-- Hands what is due to the release 0.1.0, which does not know of the table `work`.
-- For the databases of lobby and game, by their owner, once no process of the later release runs.
-- Timers of tables that it does not have are dropped; its own timer for tables where nothing happens stays.
DELETE FROM work WHERE kind IN ('unready', 'fill');
WITH handed AS (
    DELETE FROM work RETURNING stream, kind, key, version, due_at
)
INSERT INTO due (stream, kind, key, version, due_at, ready_at, attempts)
SELECT DISTINCT ON (stream, kind, key) stream, kind, key, version, due_at, due_at, 0
FROM handed ORDER BY stream, kind, key, version DESC
ON CONFLICT (stream, kind, key) DO UPDATE
SET version = excluded.version, due_at = excluded.due_at, ready_at = excluded.ready_at,
    attempts = 0, worker = NULL
WHERE due.version <= excluded.version;
