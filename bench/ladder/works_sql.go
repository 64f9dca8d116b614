package ladder

import (
	"fmt"
	"strconv"
)

// The paths of requests in the SQL form. The level is rqlite's default, and this system's.
const (
	queryPath   = "/db/query?level=weak"
	executePath = "/db/execute"
)

// sqlWorks returns works in the SQL form, which is rqlite's API: the same rows as in the structured form.
func sqlWorks() map[string]func(*work, *request) {
	return map[string]func(*work, *request){
		workPoint: (*work).sqlPoint, workHit: (*work).sqlPoint, workRange: (*work).sqlGroup, workRangeHit: (*work).sqlGroup, workWrite: (*work).sqlWrite,
	}
}

func (w *work) sqlPoint(r *request) {
	w.point(r)
	r.path, r.want = queryPath, r.wantSQLRow
	r.body = append(r.body[:0], `[["SELECT k, v FROM bench WHERE k = ?","`...)
	r.body = append(appendKey(r.body, r.n), `"]]`...)
}

func (w *work) sqlGroup(r *request) {
	w.group(r)
	r.path, r.want = queryPath, r.wantSQLGroup
	r.body = append(r.body[:0], `[["SELECT k, v FROM bench WHERE g = ?",`...)
	r.body = append(strconv.AppendInt(r.body, int64(r.n), 10), `]]`...)
}

// sqlWrite looks at each answer: a statement that fails has status 200 too.
func (w *work) sqlWrite(r *request) {
	r.method, r.path, r.gateway, r.rows, r.want, r.exact = "POST", executePath, false, -1, wantSQLWrite, true
	r.body = fmt.Appendf(r.body[:0], `[["INSERT INTO bench (k, g, v) VALUES (?, ?, ?)","w%016x-%d-%d",%d,"%016x"]]`,
		w.random.Uint64(), w.client, w.sent, writtenGroup, w.random.Uint64())
	w.sent++
}

func (r *request) wantSQLRow() [][]byte {
	b := []byte(`{"results":[{"columns":["k","v"],"types":["text","text"],"values":[`)
	return [][]byte{append(appendSQLRow(b, r.n), `]}]}`...)}
}

func (r *request) wantSQLGroup() [][]byte {
	var rows [][]byte
	for i := range groupRows {
		rows = append(rows, appendSQLRow(nil, r.n*groupRows+i))
	}
	return rows
}

// wantSQLWrite has two parts, since the rowid between them is not known. rqlite has nothing after them, this system the position.
func wantSQLWrite() [][]byte {
	return [][]byte{[]byte(`{"results":[{"last_insert_id":`), []byte(`,"rows_affected":1}]`)}
}

func appendSQLRow(b []byte, n int) []byte {
	b = appendKey(append(b, `["`...), n)
	b = append(b, `","`...)
	b = strconv.AppendInt(append(b, valueText...), int64(n), 10)
	return append(b, `"]`...)
}
