#!/bin/sh
# A dump of each database into $KEEP, whole when it has its name, for $KEEP_DAYS days. The wallet's
# comes last: what a game in the dump before has asked it for is in it, and asked again it answers the
# same.
set -eu
keep=${KEEP:-/keep}
urls=${URLS:-/run/backup}
at=$(date -u +%Y-%m-%dT%H%M%SZ)
for name in lobby game wallet; do
    pg_dump --format=custom --file="$keep/.$name" --dbname="$(cat "$urls/$name")"
    mv "$keep/.$name" "$keep/$name-$at.dump"
done
find "$keep" -name '*.dump' -mtime +"$KEEP_DAYS" -delete
