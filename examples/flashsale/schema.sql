-- The service runs this text at its start. It creates what is missing. The constraints refuse what must not happen: free cannot
-- fall below 0, a lease cannot sell more than it has, a buyer has at most one live order of a kind of goods, and the counts always
-- add up.
CREATE TABLE IF NOT EXISTS sale_goods(goods_id INTEGER PRIMARY KEY, name TEXT NOT NULL, price_cents INTEGER NOT NULL, hold_ms INTEGER NOT NULL,
  starts_at INTEGER NOT NULL, ends_at INTEGER NOT NULL, total INTEGER NOT NULL, free INTEGER NOT NULL,
  leased INTEGER NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0, sold INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT sold_out CHECK(free >= 0),
  CONSTRAINT balance CHECK(leased >= 0 AND held >= 0 AND sold >= 0 AND total = free + leased + held + sold));

CREATE TABLE IF NOT EXISTS sale_leases(lease_id TEXT NOT NULL PRIMARY KEY, goods_id INTEGER NOT NULL REFERENCES sale_goods, qty INTEGER NOT NULL,
  used INTEGER NOT NULL DEFAULT 0, expires_at INTEGER NOT NULL, CONSTRAINT lease_used CHECK(used BETWEEN 0 AND qty)) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS sale_orders(order_id TEXT NOT NULL PRIMARY KEY, goods_id INTEGER NOT NULL REFERENCES sale_goods, user_id TEXT NOT NULL,
  lease_id TEXT REFERENCES sale_leases, state TEXT NOT NULL CHECK(state IN ('HELD','PAID','EXPIRED','CANCELLED','REFUSED')),
  created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL) WITHOUT ROWID;

CREATE UNIQUE INDEX IF NOT EXISTS sale_one_live_order ON sale_orders(goods_id, user_id) WHERE state IN ('HELD','PAID');
CREATE INDEX IF NOT EXISTS sale_orders_due ON sale_orders(expires_at) WHERE state = 'HELD';
CREATE INDEX IF NOT EXISTS sale_leases_due ON sale_leases(expires_at) WHERE used < qty;

-- Triggers keep the counts right, so that each action is one statement on sale_orders or sale_leases.
CREATE TRIGGER IF NOT EXISTS sale_new_order AFTER INSERT ON sale_orders WHEN NEW.state <> 'REFUSED' BEGIN
  UPDATE sale_leases SET used = used + 1 WHERE lease_id = NEW.lease_id;
  UPDATE sale_goods SET free = free - (NEW.lease_id IS NULL), leased = leased - (NEW.lease_id IS NOT NULL),
    held = held + (NEW.state = 'HELD'), sold = sold + (NEW.state = 'PAID') WHERE goods_id = NEW.goods_id;
END;
CREATE TRIGGER IF NOT EXISTS sale_order_leaves_held AFTER UPDATE OF state ON sale_orders WHEN OLD.state = 'HELD' AND NEW.state <> 'HELD' BEGIN
  UPDATE sale_goods SET held = held - 1, sold = sold + (NEW.state = 'PAID'), free = free + (NEW.state <> 'PAID') WHERE goods_id = NEW.goods_id;
END;
CREATE TRIGGER IF NOT EXISTS sale_new_lease AFTER INSERT ON sale_leases BEGIN
  UPDATE sale_goods SET free = free - NEW.qty, leased = leased + NEW.qty WHERE goods_id = NEW.goods_id;
END;
-- A lease is closed when it has no unused unit: qty becomes used. The constraint lease_used then refuses every later order.
CREATE TRIGGER IF NOT EXISTS sale_lease_closes AFTER UPDATE OF qty ON sale_leases BEGIN
  UPDATE sale_goods SET free = free + OLD.qty - NEW.qty, leased = leased - OLD.qty + NEW.qty WHERE goods_id = NEW.goods_id;
END;
