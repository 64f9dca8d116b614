package main

import _ "embed"

// schema creates the tables, the constraints, and the triggers that keep the counts.
//
//go:embed schema.sql
var schema string

// now is the database's clock in milliseconds since 1970. No other clock decides when a sale opens or a hold expires, so
// all instances agree, and a retry has the same statement.
const now = `CAST(1000 * unixepoch('subsec') + 0.5 AS INTEGER)`

// goodsColumns are the columns that goodsOf reads.
const goodsColumns = `goods_id, name, total, free, held, sold, starts_at, ends_at`

// The statements of the routes. Each change is one statement that contains its condition, so that no other buyer's change
// can come between the check and the change.
const (
	insertGoods = `INSERT INTO sale_goods(name, price_cents, hold_ms, starts_at, ends_at, total, free) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING goods_id`
	addStock    = `UPDATE sale_goods SET total = total + ?, free = free + ? WHERE goods_id = ? RETURNING ` + goodsColumns
	selectGoods = `SELECT ` + goodsColumns + ` FROM sale_goods`

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
	selectOrder = `SELECT goods_id, state, created_at, expires_at, user_id FROM sale_orders WHERE order_id = ?`

	// expireOrders ends a bounded number of holds, so that a sweep is never a long write.
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
