WITH given AS MATERIALIZED (
    SELECT $3::uuid[] AS streams, $10::text::bigint[] AS versions, $11::text::bigint[] AS moments
), asked AS MATERIALIZED (
    SELECT * FROM unnest($3::uuid[], $4::text::bigint[], $5::bytea[], $6::text[], $7::text::bigint[], $8::bytea[], $9::text::boolean[], $10::text::bigint[], $11::text::bigint[]) WITH ORDINALITY
    AS a(stream, expected, previous, request_id, not_after, hash, ended, version, at, i)
), decided AS MATERIALIZED (
    SELECT i, now, CASE
        WHEN coalesce(head_version, 0) <> expected OR known THEN 1
        WHEN now > not_after THEN 2
        WHEN head_hash <> previous OR at < head_at OR at < now - $1::bigint
            OR (at > now + $1 AND at IS DISTINCT FROM head_at) THEN 3
        ELSE 0 END::smallint AS verdict
    FROM (
        SELECT a.i, a.expected, a.previous, a.not_after, a.at, head.version AS head_version,
            head.hash AS head_hash, head.recorded_at AS head_at, earlier.known,
            coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
        FROM asked a
        LEFT JOIN LATERAL (
            SELECT version, hash, recorded_at FROM heads WHERE stream = a.stream FOR UPDATE
        ) head ON true
        LEFT JOIN LATERAL (
            SELECT true AS known FROM events
            WHERE stream = a.stream AND request_id = a.request_id AND a.expected > 0 LIMIT 1
        ) earlier ON true
        OFFSET 0
    ) judged
), verdicts AS MATERIALIZED (
    SELECT array_agg(verdict ORDER BY i) AS list, max(now) AS now FROM decided
), opened AS (INSERT INTO heads (stream, version, hash, ended, recorded_at)
        SELECT stream, version, hash, ended, at FROM asked WHERE expected = 0 AND (SELECT list FROM verdicts)[i] = 0), events AS (INSERT INTO events (stream, version, name, schema, payload, secret_digest, metadata,
            request_id, body_hash, recorded_at, hash)
        SELECT (SELECT streams FROM given)[i], version, name, schema, payload, secret_digest, metadata, request_id,
            body_hash, (SELECT moments FROM given)[i], hash
        FROM unnest($12::text::integer[], $13::text::bigint[], $14::text[], $15::text::integer[], $16::bytea[], $17::bytea[], $18::bytea[], $19::text[], $20::bytea[], $21::bytea[]) AS e(i, version, name, schema, payload, secret_digest,
            metadata, request_id, body_hash, hash) WHERE (SELECT list FROM verdicts)[i] = 0), secrets AS (INSERT INTO event_secrets (stream, version, sealed)
        SELECT (SELECT streams FROM given)[i], version, sealed
        FROM unnest($22::text::integer[], $23::text::bigint[], $24::bytea[]) AS s(i, version, sealed) WHERE (SELECT list FROM verdicts)[i] = 0), keys AS (INSERT INTO stream_keys (stream, key_id, wrapped)
        SELECT (SELECT streams FROM given)[i], key_id, wrapped
        FROM unnest($25::text::integer[], $26::text[], $27::bytea[]) AS k(i, key_id, wrapped) WHERE (SELECT list FROM verdicts)[i] = 0), due AS (INSERT INTO due (stream, kind, key, version, due_at, ready_at, attempts)
        SELECT (SELECT streams FROM given)[i], kind, key, (SELECT versions FROM given)[i], at, at, 0
        FROM unnest($28::text::integer[], $29::text[], $30::text[], $31::text::bigint[]) AS d(i, kind, key, at) WHERE (SELECT list FROM verdicts)[i] = 0
        ON CONFLICT (stream, kind, key) DO UPDATE SET version = excluded.version,
            due_at = excluded.due_at, ready_at = excluded.ready_at, attempts = 0, worker = NULL) SELECT list, now FROM verdicts
