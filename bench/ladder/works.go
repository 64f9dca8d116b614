package ladder

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

// The works.
const (
	workPoint = "point-read"
	// workOnce is point reads with a different parameter each, so that no answer is in a cache.
	workOnce = "point-read-once"
	// workCount is a COUNT(DISTINCT) over all rows, by an index that does not cover it.
	workCount = "count-distinct"
	// workCovered is the same by an index that covers it.
	workCovered = "count-distinct-covered"
	workRange   = "20-row-read"
	// workHit and workRangeHit ask for the same few rows again and again. A cache has all of them before the measurement begins.
	workHit      = "point-read-hit"
	workRangeHit = "20-row-read-hit"
	workWrite    = "write"
	workMixed    = "mixed-90-10"
	workRide     = "ride-get"
	// workBesideSlow is point reads while a slow statement runs now and then.
	workBesideSlow = "point-beside-slow"
	// workNothing is a point read whose answer is not checked.
	workNothing = "nothing"
)

const (
	// groupRows is how many rows the range read returns.
	groupRows = 20
	// hotKeys is how many keys or groups workHit and workRangeHit ask for.
	hotKeys = 100
	// benchRides and rideUsers are how many rides and users the application's tables have.
	benchRides = 1000
	rideUsers  = 100
	// One in sampleEvery answers is compared byte by byte; the others are checked for their status and number
	// of rows. All answers of a work that counts are compared.
	sampleEvery = 16
	// writtenPer is the share of writes in the mixed work: one in 10.
	writtenPer = 10
	// writePath is the path of the requests that write, in the structured form.
	writePath = "/api/v1/db/write"
	// valueText begins the value of each row that is read.
	valueText = "value of row "
)

// request is one request and its expected answer. It is reused for the next request.
type request struct {
	method, path string
	gateway      bool // sent through the gateway; others go straight to the database's API
	body         []byte
	rows         int // of the answer, -1 when it has none
	// want returns the expected answer or, for several rows, each expected row, since the order of rows is not
	// guaranteed. It is nil where only the number of rows is known.
	want  func() [][]byte
	exact bool // the whole answer is always compared
	n     int  // of the row, the group or the ride that is asked for
}

// work makes requests. Each client has its own.
type work struct {
	rows   int // of the table
	random *rand.Rand
	client int
	sent   int
	next   func(*work, *request)
}

var errWork = errors.New("no such work")

func newWork(name string, rows, client int) (*work, error) {
	next := map[string]func(*work, *request){
		workPoint: (*work).point, workRange: (*work).group, workWrite: (*work).write, workMixed: (*work).mixed, workRide: (*work).ride, workNothing: (*work).nothing,
		workBesideSlow: (*work).point, workOnce: (*work).once, workCount: (*work).count, workCovered: (*work).covered, workHit: (*work).point, workRangeHit: (*work).group,
	}[name]
	if next == nil {
		return nil, fmt.Errorf("%s: %w", name, errWork)
	}
	if hot := hotRows(name); hot > 0 {
		rows = min(rows, hot)
	}
	return &work{rows: rows, client: client, next: next, random: rand.New(rand.NewPCG(rand.Uint64(), 1))}, nil //nolint:gosec // load, not secrets.
}

// writes reports whether a work adds rows.
func writes(work string) bool { return work == workWrite || work == workMixed }

// counts reports whether a work is an aggregate over all rows.
func counts(work string) bool { return work == workCount || work == workCovered }

// hotRows returns how many rows a work reads again and again, 0 if it reads all rows.
func hotRows(work string) int {
	return map[string]int{workHit: hotKeys, workRangeHit: hotKeys * groupRows}[work]
}

func (w *work) point(r *request) {
	r.method, r.path, r.gateway, r.rows, r.want = "POST", "/api/v1/db/read", false, 1, r.wantRow
	r.n = w.random.IntN(w.rows)
	r.body = append(r.body[:0], `{"table":"bench","columns":["k","v"],"condition":{"k":"`...)
	r.body = append(appendKey(r.body, r.n), `"}}`...)
}

// once asks for a key that no earlier request asked for. There is no such row.
func (w *work) once(r *request) {
	r.method, r.path, r.gateway, r.rows, r.want = "POST", "/api/v1/db/read", false, 0, nil
	r.body = fmt.Appendf(r.body[:0], `{"table":"bench","columns":["k","v"],"condition":{"k":"once-%016x-%d-%d"}}`, w.random.Uint64(), w.client, w.sent)
	w.sent++
}

func (w *work) count(r *request) { w.distinct(r, "v", "g>=0") }

// covered counts by the index of the primary key. The keys of other rows do not begin with k.
func (w *work) covered(r *request) { w.distinct(r, "k", "k>='k' AND k<'l'") }

func (w *work) distinct(r *request, column, rows string) {
	r.method, r.path, r.gateway, r.rows, r.exact = "POST", "/db/query", false, -1, true
	r.body = fmt.Appendf(r.body[:0], `["SELECT COUNT(DISTINCT %s) FROM bench WHERE %s"]`, column, rows)
	r.want = func() [][]byte {
		return [][]byte{fmt.Appendf(nil, `{"results":[{"columns":["COUNT(DISTINCT %s)"],"types":["integer"],"values":[[%d]]}]}`, column, w.rows)}
	}
}

// nothing makes the same request as a point read; a server that does no work answers it without rows.
func (w *work) nothing(r *request) {
	w.point(r)
	r.rows, r.want = 0, nil
}

func (w *work) group(r *request) {
	r.method, r.path, r.gateway, r.rows, r.want = "POST", "/api/v1/db/read", false, groupRows, r.wantGroup
	r.n = w.random.IntN(w.rows / groupRows)
	r.body = append(r.body[:0], `{"table":"bench","columns":["k","v"],"condition":{"g":`...)
	r.body = append(strconv.AppendInt(r.body, int64(r.n), 10), `}}`...)
}

// write inserts a row with a new key that no read uses.
func (w *work) write(r *request) {
	r.method, r.path, r.gateway, r.rows, r.want = "POST", writePath, false, -1, nil
	r.body = fmt.Appendf(r.body[:0], `{"query":"insert","table":"bench","values":{"k":"w%016x-%d-%d","g":%d,"v":"%016x"}}`,
		w.random.Uint64(), w.client, w.sent, writtenGroup, w.random.Uint64())
	w.sent++
}

func (w *work) mixed(r *request) {
	if w.random.IntN(writtenPer) == 0 {
		w.write(r)
		return
	}
	w.point(r)
}

func (w *work) ride(r *request) {
	r.method, r.gateway, r.rows, r.want = "GET", true, -1, r.wantRide
	r.n = 1 + w.random.IntN(benchRides)
	r.path = "/api/v1/rides/" + strconv.Itoa(r.n)
	r.body = r.body[:0]
}

// check returns what is wrong with an answer. If exact is set, here or in the request, it compares the whole answer.
func (r *request) check(status int, body []byte, exact bool) error {
	if status != 200 {
		return fmt.Errorf("%s %s %s: status %d: %.200s", r.method, r.path, r.body, status, body)
	}
	if r.rows >= 0 && bytes.Count(body, []byte(valueText)) != r.rows {
		return fmt.Errorf("%s: answer has not %d rows: %.200s", r.body, r.rows, body)
	}
	if !exact && !r.exact || r.want == nil {
		return nil
	}
	wanted := r.want()
	for _, want := range wanted {
		if !bytes.Contains(body, want) || len(wanted) == 1 && len(want) != len(body) {
			return fmt.Errorf("%s %s: got %.300s, want %.300s", r.path, r.body, body, want)
		}
	}
	return nil
}

func (r *request) wantRow() [][]byte {
	return [][]byte{append(appendRow([]byte{'['}, r.n), ']')}
}

func (r *request) wantGroup() [][]byte {
	var rows [][]byte
	for i := range groupRows {
		rows = append(rows, appendRow(nil, r.n*groupRows+i))
	}
	return rows
}

func (r *request) wantRide() [][]byte {
	riders := []string{rideUser(r.n + 1), rideUser(r.n + 2)}
	slices.Sort(riders)
	return [][]byte{fmt.Appendf(nil, `{"rideId":%d,"created_by":%q,"users":[%q,%q],"timestamp":%q,"source":1,"destination":2,"seats":4,"seats_left":2}`,
		r.n, rideUser(r.n), riders[0], riders[1], rideTime)}
}

func appendRow(b []byte, n int) []byte {
	b = appendKey(append(b, `{"k":"`...), n)
	b = append(b, `","v":"`+valueText...)
	return append(strconv.AppendInt(b, int64(n), 10), `"}`...)
}

// appendKey appends the key of a row: k and eight digits.
func appendKey(b []byte, n int) []byte {
	b = append(b, 'k')
	for unit := 10_000_000; unit > 0; unit /= 10 {
		b = append(b, byte('0'+n/unit%10))
	}
	return b
}

const rideTime = "31-12-2030:00-30-10"

func rideUser(n int) string { return fmt.Sprintf("bench%03d", n%rideUsers) }
