#!/bin/sh
# Run once by the image of PostgreSQL, on an empty volume: two roles and three databases.
set -eu
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" \
    --set owner="$OWNER_PASSWORD" --set service="$SERVICE_PASSWORD" <<'SQL'
CREATE ROLE kozyr_owner LOGIN PASSWORD :'owner';
CREATE ROLE kozyr_service LOGIN PASSWORD :'service';
CREATE DATABASE lobby OWNER kozyr_owner;
CREATE DATABASE game OWNER kozyr_owner;
CREATE DATABASE wallet OWNER kozyr_owner;
SQL
