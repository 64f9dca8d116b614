package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/ledger"
	"rideshare/bench/loadgen"
	"rideshare/bench/scene"
	"rideshare/examples/internal/db"
	"rideshare/internal/wait"
)

const season = 2025

// ride is what a client sends.
type ride struct{ resort, day, skier, lift, time int }

// path is the path of the skier's day.
func (r ride) path() string {
	return fmt.Sprintf("/skiers/%d/seasons/%d/days/%d/skiers/%d", r.resort, season, r.day, r.skier)
}

// play is one run of a scene. It has a resort without rides for itself, and sends no two equal rides there.
type play struct {
	*scene.Run

	settings settings
	db       *db.Client
	id       string // of this run
	resort   int
	keys     bool          // each ride has an Idempotency-Key
	rest     time.Duration // before the last attempt
	rides    ledger.Writes[ride]
	seq      uint64 // of the last write; changed in Change
}

// choose chooses a resort that has no rides and no seasons yet.
func (p *play) choose(ctx context.Context) bool {
	free := scene.Rows[[1]int](ctx, p.Run, `SELECT resort_id FROM ski_resorts r WHERE NOT EXISTS (SELECT 1 FROM ski_rides d WHERE d.resort_id = r.resort_id)
		AND NOT EXISTS (SELECT 1 FROM ski_seasons s WHERE s.resort_id = r.resort_id) LIMIT 1`)
	if len(free) == 0 {
		p.Fail(ctx, errors.New("no resort without rides: use another database"))
		return false
	}
	p.resort = free[0][0]
	return true
}

// send returns a call that sends a ride, which next makes for a stage.
func (p *play) send(next func(stage int) ride) func(context.Context, loadgen.Request) loadgen.Outcome {
	return func(ctx context.Context, r loadgen.Request) loadgen.Outcome {
		one := next(r.Stage)
		for !p.rides.Add(one) {
			one = next(r.Stage)
		}
		return p.post(ctx, one, "ride")
	}
}

// post sends one ride, in up to five attempts, and records its fate. After 504 it retries only with a key.
func (p *play) post(ctx context.Context, one ride, kind string, header ...string) loadgen.Outcome {
	if p.keys {
		header = append(header, "Idempotency-Key", fmt.Sprint(p.id, one))
	}
	r, fate := p.Attempts(ctx, scene.Request{
		URL: p.settings.service + one.path(), Body: map[string]int{"time": one.time, "liftID": one.lift}, Header: header,
		Repeatable: p.keys, Rest: p.rest,
	})
	p.rides.Note(one, fate)
	p.Change(func(*scene.Result) { p.seq = max(p.seq, scene.Seq(r)) })
	if fate == ledger.Applied {
		return loadgen.Outcome{Kind: kind}
	}
	failure := r.Failure(http.StatusCreated)
	if r.Wrong() || failure == "timeout" {
		p.Wrong("%s: got %v", kind, r)
	}
	failure = cmp.Or(r.Header.Get("X-Reason"), failure)
	return loadgen.Outcome{Kind: failure, Failure: failure}
}

// get sends a query, in up to five attempts.
func (p *play) get(ctx context.Context, path string, header ...string) api.Reply {
	r, _ := p.Attempts(ctx, scene.Request{Method: http.MethodGet, URL: p.settings.service + path, Header: header, Repeatable: true})
	return r
}

// check compares the rows of this run with the rides that were answered, and the queries' answers with a model of the rows.
func (p *play) check(ctx context.Context) {
	days, ofResort, ofSkiers := map[int]bool{}, map[ride]int{}, map[ride]int{}
	patience, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for one, fate := range p.rides.Fates() {
		days[one.day] = true
		for again := fate == ledger.Unknown && p.keys; again; {
			again = p.post(ctx, one, "ride").Failure != "" && wait.For(patience, time.Second)
		}
	}
	// Writes are done in order: once this one is done, no earlier one is still to be done.
	_, err := p.db.Insist(patience, db.Options{Key: p.id}, db.SQL("INSERT INTO ski_seasons VALUES(?, ?)", p.resort, season))
	if err != nil {
		p.Fail(ctx, err)
	}
	for day := range days {
		p.read(patience, ofResort, "resort_id = ? AND day_id = ?", p.resort, day)
	}
	scene.Compare(p.Run, "ride", &p.rides, ofResort)
	p.Change(func(res *scene.Result) {
		if p.keys && res.Check.UnknownThere+res.Check.UnknownMissing > 0 {
			res.Check.Wrong.Add("rides with a key stay unknown")
		}
	})
	for r := range ofResort {
		if len(ofSkiers) < 30 {
			p.read(patience, ofSkiers, "skier_id = ?", r.skier) // They may have rides at other resorts.
		}
	}
	p.checkQueries(ctx, p.model(ofResort, ofSkiers))
}

// read adds the rides of the season that meet a condition.
func (p *play) read(ctx context.Context, to map[ride]int, condition string, values ...any) {
	rides := scene.Rows[[6]int](ctx, p.Run, `SELECT resort_id, day_id, skier_id, lift_id, ride_time, count(*) FROM ski_rides
		WHERE season_id = ? AND `+condition+" GROUP BY 1, 2, 3, 4, 5", append([]any{season}, values...)...)
	for _, row := range rides {
		to[ride{row[0], row[1], row[2], row[3], row[4]}] = row[5]
	}
}

// answer is the answer of a query. Its list has an item for each member, in order. The format whole has the list as %[1]s
// and its length as %[2]d; the format item has the two parts of the member, and its sum as %[3]d.
type answer struct {
	whole, item string
	sums        map[[2]int]int
}

// model returns the answers that the queries must have, by path.
func (p *play) model(ofResort, ofSkiers map[ride]int) map[string]answer {
	model := map[string]answer{}
	add := func(path, whole, item string, member [2]int, n int) {
		if model[path].sums == nil {
			model[path] = answer{whole, item, map[[2]int]int{}}
		}
		model[path].sums[member] += n
	}
	for r, n := range ofResort {
		resort := fmt.Sprintf("/resorts/%d/seasons", r.resort)
		day := fmt.Sprintf("%s/%d/day/%d/", resort, season, r.day)
		add(resort, `{"seasons":[%[1]s]}`, `"%[1]d"`, [2]int{season}, n)
		add(day+"hours", `{"hours":[%[1]s]}`, `{"hour":%[1]d,"rides":%[3]d}`, [2]int{(r.time - 1) / 60}, n)
		add(day+"skiers", fmt.Sprintf(`{"numSkiers":%%[2]d,"time":"Resort %d"}`, r.resort), "%[1]d", [2]int{r.skier}, n)
		add(fmt.Sprintf("%slifts/%d/rides", day, r.lift), `{"rides":%[1]s}`, "%[3]d", [2]int{}, n)
	}
	for r, n := range ofSkiers {
		skier, vertical := fmt.Sprintf("/skiers/%d/", r.skier), n*r.lift*10
		add(r.path(), "%[1]s", "%[3]d", [2]int{}, vertical)
		add(fmt.Sprintf("%svertical?season=%d&resort=%d", skier, season, r.resort), `{"resorts":[%[1]s]}`, `{"seasonID":"%[1]d","totalVert":%[3]d}`, [2]int{season}, vertical)
		skier += fmt.Sprintf("seasons/%d/", season)
		add(skier+"days", `{"count":%[2]d,"days":[%[1]s]}`, "%[1]d", [2]int{r.day}, n)
		add(skier+"verticals", `{"days":[%[1]s]}`, `{"dayID":%[1]d,"vertical":%[3]d}`, [2]int{r.day}, vertical)
		add(fmt.Sprintf("%sdays/%d/lifts", skier, r.day), `{"lifts":[%[1]s]}`, `{"liftID":%[2]d,"resortID":%[1]d,"rides":%[3]d}`, [2]int{r.resort, r.lift}, n)
	}
	return model
}

// checkQueries compares the service's answers with the model, at the last position and at level strong.
func (p *play) checkQueries(ctx context.Context, model map[string]answer) {
	for path, a := range model {
		var list []string
		for _, member := range slices.SortedFunc(maps.Keys(a.sums), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
			list = append(list, fmt.Sprintf(a.item, member[0], member[1], a.sums[member]))
		}
		want := fmt.Sprintf(a.whole, strings.Join(list, ","), len(list))
		strong := path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "level=strong"
		for _, r := range []api.Reply{p.get(ctx, path, "X-Min-Seq", fmt.Sprint(p.seq)), p.get(ctx, strong)} {
			if r.Failure(http.StatusOK) != "" || string(r.Body) != want+"\n" {
				p.Wrong("GET %s: got %v, want %s", path, r, want)
			}
		}
	}
}
