-- The service runs this text at its start. It creates what is missing. :low and :high are the range of the resorts.
CREATE TABLE IF NOT EXISTS ski_resorts(resort_id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS ski_seasons(resort_id INTEGER NOT NULL REFERENCES ski_resorts, season_id INTEGER NOT NULL, PRIMARY KEY(resort_id, season_id)) WITHOUT ROWID;
-- The order of the key serves the queries of a resort. A cache that knows key prefixes sees which answers a ride changes.
CREATE TABLE IF NOT EXISTS ski_rides(resort_id INTEGER NOT NULL, season_id INTEGER NOT NULL, day_id INTEGER NOT NULL, skier_id INTEGER NOT NULL, ride_id INTEGER NOT NULL,
  lift_id INTEGER NOT NULL, ride_time INTEGER NOT NULL, wait_time INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(resort_id, season_id, day_id, skier_id, ride_id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ski_rides_by_skier ON ski_rides(skier_id, season_id, day_id, resort_id, lift_id);
WITH RECURSIVE ids(id) AS (VALUES(:low) UNION ALL SELECT id + 1 FROM ids WHERE id < :high)
INSERT INTO ski_resorts SELECT id, 'Resort ' || id FROM ids WHERE true ON CONFLICT DO NOTHING;
