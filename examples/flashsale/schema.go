package main

// now is the database's clock in milliseconds since 1970. No other clock decides when a sale opens or a hold expires, so
// all instances agree, and a retry has the same statement.
const now = `CAST(1000 * unixepoch('subsec') + 0.5 AS INTEGER)`

// schema makes the tables. The constraints refuse what must not happen: free cannot fall below 0, a lease cannot sell more
// than it has, a buyer has at most one live order of a kind of goods, and the counts always add up.
//
// Triggers keep the counts right, so that each action is one statement on sale_orders or sale_leases. A lease is closed when
// it has no unused unit: to close it, qty becomes used, and the constraint lease_used then refuses every later order.
var schema = []string{
	`CREATE TABLE IF NOT EXISTS sale_goods(goods_id INTEGER PRIMARY KEY, name TEXT NOT NULL, price_cents INTEGER NOT NULL, hold_ms INTEGER NOT NULL,
  starts_at INTEGER NOT NULL, ends_at INTEGER NOT NULL, total INTEGER NOT NULL, free INTEGER NOT NULL,
  leased INTEGER NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0, sold INTEGER NOT NULL DEFAULT 0, CONSTRAINT sold_out CHECK(free >= 0),
  CONSTRAINT balance CHECK(leased >= 0 AND held >= 0 AND sold >= 0 AND total = free + leased + held + sold))`,
	`CREATE TABLE IF NOT EXISTS sale_leases(lease_id TEXT NOT NULL PRIMARY KEY, goods_id INTEGER NOT NULL REFERENCES sale_goods, qty INTEGER NOT NULL,
  used INTEGER NOT NULL DEFAULT 0, expires_at INTEGER NOT NULL, CONSTRAINT lease_used CHECK(used BETWEEN 0 AND qty)) WITHOUT ROWID`,
	`CREATE TABLE IF NOT EXISTS sale_orders(order_id TEXT NOT NULL PRIMARY KEY, goods_id INTEGER NOT NULL REFERENCES sale_goods, user_id TEXT NOT NULL,
  lease_id TEXT REFERENCES sale_leases, state TEXT NOT NULL CHECK(state IN ('HELD','PAID','EXPIRED','CANCELLED','REFUSED')), created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL) WITHOUT ROWID`,
	`CREATE UNIQUE INDEX IF NOT EXISTS sale_one_live_order ON sale_orders(goods_id, user_id) WHERE state IN ('HELD','PAID')`,
	`CREATE INDEX IF NOT EXISTS sale_orders_due ON sale_orders(expires_at) WHERE state = 'HELD'`,
	`CREATE INDEX IF NOT EXISTS sale_leases_due ON sale_leases(expires_at) WHERE used < qty`,
	`CREATE TRIGGER IF NOT EXISTS sale_new_order AFTER INSERT ON sale_orders WHEN NEW.state <> 'REFUSED' BEGIN
  UPDATE sale_leases SET used = used + 1 WHERE lease_id = NEW.lease_id;
  UPDATE sale_goods SET free = free - (NEW.lease_id IS NULL), leased = leased - (NEW.lease_id IS NOT NULL),
  held = held + (NEW.state = 'HELD'), sold = sold + (NEW.state = 'PAID') WHERE goods_id = NEW.goods_id; END`,
	`CREATE TRIGGER IF NOT EXISTS sale_order_leaves_held AFTER UPDATE OF state ON sale_orders WHEN OLD.state = 'HELD' AND NEW.state <> 'HELD' BEGIN
  UPDATE sale_goods SET held = held - 1, sold = sold + (NEW.state = 'PAID'), free = free + (NEW.state <> 'PAID') WHERE goods_id = NEW.goods_id; END`,
	`CREATE TRIGGER IF NOT EXISTS sale_new_lease AFTER INSERT ON sale_leases BEGIN
  UPDATE sale_goods SET free = free - NEW.qty, leased = leased + NEW.qty WHERE goods_id = NEW.goods_id; END`,
	`CREATE TRIGGER IF NOT EXISTS sale_lease_closes AFTER UPDATE OF qty ON sale_leases BEGIN
  UPDATE sale_goods SET free = free + OLD.qty - NEW.qty, leased = leased - OLD.qty + NEW.qty WHERE goods_id = NEW.goods_id; END`,
}

// The statements of the routes. Each change is one statement that contains its condition, so that no other buyer's change
// can come between the check and the change.
const (
	insertGoods = `INSERT INTO sale_goods(name, price_cents, hold_ms, starts_at, ends_at, total, free) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING goods_id`
	addStock    = `UPDATE sale_goods SET total = total + ?, free = free + ? WHERE goods_id = ?`
	selectGoods = `SELECT goods_id, name, total, free, held, sold, starts_at, ends_at FROM sale_goods`

	// insertOrder takes a unit of the lease ?4, or a free unit if ?4 is NULL.
	insertOrder = `INSERT INTO sale_orders(order_id, goods_id, user_id, lease_id, state, created_at, expires_at)
SELECT ?1, goods_id, ?2, ?4, iif(hold_ms = 0, 'PAID', 'HELD'), ` + now + `, ` + now + ` + hold_ms FROM sale_goods
WHERE goods_id = ?3 AND ` + now + ` BETWEEN starts_at AND ends_at RETURNING state, expires_at`
	// refuseOrder follows insertOrder in an asynchronous write, which has no answer: it records that the order was refused.
	refuseOrder = `INSERT INTO sale_orders(order_id, goods_id, user_id, lease_id, state, created_at, expires_at)
VALUES (?1, ?3, ?2, ?4, 'REFUSED', ` + now + `, ` + now + `) ON CONFLICT(order_id) DO NOTHING`
	// liveOrder selects why an order was refused: the goods, and the live order of this buyer, if there are any.
	liveOrder = `SELECT o.order_id, o.state, o.expires_at FROM sale_goods g LEFT JOIN sale_orders o
ON o.goods_id = g.goods_id AND o.user_id = ? AND o.state IN ('HELD','PAID') WHERE g.goods_id = ?`

	payOrder    = `UPDATE sale_orders SET state = 'PAID' WHERE order_id = ? AND user_id = ? AND state = 'HELD' AND expires_at > ` + now
	cancelOrder = `UPDATE sale_orders SET state = 'CANCELLED' WHERE order_id = ? AND user_id = ? AND state = 'HELD'`
	selectOrder = `SELECT goods_id, state, created_at, expires_at FROM sale_orders WHERE order_id = ? AND user_id = ?`

	// expireOrders ends at most sweepMost holds, so that a sweep is never a long write.
	expireOrders = `UPDATE sale_orders SET state = 'EXPIRED' WHERE order_id IN
(SELECT order_id FROM sale_orders WHERE state = 'HELD' AND expires_at <= ` + now + ` ORDER BY expires_at LIMIT ?)`

	// insertLease takes the share of one of ?3 instances; less than 4 units for each are not leased.
	insertLease = `INSERT INTO sale_leases(lease_id, goods_id, qty, expires_at) SELECT ?1, goods_id, free / (4 * ?3), ` + now + ` + ?4
FROM sale_goods WHERE goods_id = ?2 AND free >= 4 * ?3 AND ` + now + ` BETWEEN starts_at AND ends_at RETURNING qty`
	renewLease  = `UPDATE sale_leases SET expires_at = ` + now + ` + ?4 WHERE lease_id = ?1 AND used < qty AND expires_at > ` + now + ` RETURNING qty`
	closeLeases = `UPDATE sale_leases SET qty = used WHERE used < qty AND expires_at <= ` + now

	// selectAudit counts the orders and the leases beside the counts that the triggers keep, in one read at one position.
	selectAudit = `WITH o AS (SELECT state, count(*) AS n FROM sale_orders WHERE goods_id = ?1 GROUP BY state)
SELECT total, free, leased, held, sold, (SELECT json_group_object(state, n) FROM o),
free >= 0 AND total = free + leased + held + sold
AND held = ifnull((SELECT n FROM o WHERE state = 'HELD'), 0) AND sold = ifnull((SELECT n FROM o WHERE state = 'PAID'), 0)
AND leased = (SELECT ifnull(sum(qty - used), 0) FROM sale_leases WHERE goods_id = ?1)
AND NOT EXISTS (SELECT 1 FROM sale_orders WHERE goods_id = ?1 AND state IN ('HELD','PAID') GROUP BY user_id HAVING count(*) > 1)
FROM sale_goods WHERE goods_id = ?1`
)

// The texts of the two refusals that the constraints give.
const (
	errSoldOut   = "CHECK constraint failed: sold_out"
	errDuplicate = "UNIQUE constraint failed"
)
