package main

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"rideshare/internal/testkit/testenv"
	"rideshare/internal/testkit/uptest"
)

// Every route has its answers, with positions, and what is wrong is refused as the contract says.
func TestRoutes(t *testing.T) {
	i := newInstance(t, uptest.Start(t), func(c *config) { c.ranges["resort"] = [2]int{1, 3} })
	written := i.want(t, "POST", post(1, 2025, 2, 7), `{"time":217,"liftID":21}`, 201, "{}")
	seen := []string{"X-Min-Seq", written.header.Get("X-Seq"), "X-Cluster-Id", written.header.Get("X-Cluster-Id")}
	t.Run("Answers", func(t *testing.T) {
		i.want(t, "POST", "/LAB2_2_war"+strings.ReplaceAll(post(1, 2025, 2, 7), "days", "day"), `{"time":1,"liftID":3,"waitTime":4}`, 201, "{}")
		i.want(t, "POST", strings.ReplaceAll(post(2, 2024, 1, 7), "skiers/7", "skier/7"), `{"liftID":1,"time":60}`, 201, "{}")
		for path, want := range map[string]string{
			post(1, 2025, 2, 7):                                "240",
			post(1, 2025, 2, 8):                                "0",
			"/x/skiers/1/seasons/2025/day/2/skier/7":           "240",
			"/skiers/7/vertical?resort=1":                      `{"resorts":[{"seasonID":"2025","totalVert":240}]}`,
			"/skiers/7/vertical?resort=1&resort=2":             `{"resorts":[{"seasonID":"2024","totalVert":10},{"seasonID":"2025","totalVert":240}]}`,
			"/skiers/7/vertical?resort=1&resort=2&season=2024": `{"resorts":[{"seasonID":"2024","totalVert":10}]}`,
			"/skiers/7/seasons/2025/days":                      `{"count":1,"days":[2]}`,
			"/skiers/8/seasons/2025/days":                      `{"count":0,"days":[]}`,
			"/skiers/7/seasons/2025/verticals":                 `{"days":[{"dayID":2,"vertical":240}]}`,
			"/skiers/7/seasons/2025/days/2/lifts":              `{"lifts":[{"liftID":3,"resortID":1,"rides":1},{"liftID":21,"resortID":1,"rides":1}]}`,
			"/resorts/1/seasons/2025/day/2/skiers":             `{"numSkiers":1,"time":"Resort 1"}`,
			"/resorts/1/seasons/2025/day/2/lifts/21/rides":     `{"rides":1}`,
			"/resorts/1/seasons/2025/days/2/hours":             `{"hours":[{"hour":0,"rides":1},{"hour":3,"rides":1}]}`,
			"/resorts/2/seasons/2024/day/1/hours":              `{"hours":[{"hour":0,"rides":1}]}`,
			"/resorts":                                         `{"resorts":[{"resortID":1,"resortName":"Resort 1"},{"resortID":2,"resortName":"Resort 2"},{"resortID":3,"resortName":"Resort 3"}]}`,
			"/resorts/1/seasons":                               `{"seasons":["2025"]}`,
			"/resorts/3/seasons":                               `{"seasons":[]}`,
		} {
			if r := i.want(t, "GET", path, "", 200, want, seen...); r.header.Get("X-Seq") == "" || r.header.Get("X-Cache") == "" {
				t.Errorf("%s: got %v, want X-Seq and X-Cache", path, r.header)
			}
		}
	})
	t.Run("Prefer", func(t *testing.T) {
		for prefer, status := range map[string]int{"respond-async": 202, "wait=9, Respond-Async;x=1": 202, "x=1\nRESPOND-ASYNC": 202, "respond-asynchronous": 201, "x=respond-async": 201, "": 201} {
			req := httptest.NewRequestWithContext(t.Context(), "POST", post(1, 2025, 3, 7), strings.NewReader(aRide))
			req.Header["Prefer"] = strings.Split(prefer, "\n")
			w := httptest.NewRecorder()
			if i.ServeHTTP(w, req); w.Code != status {
				t.Errorf("Prefer %q: got %d %s, want %d", prefer, w.Code, w.Body, status)
			}
		}
	})
	t.Run("Seasons", func(t *testing.T) {
		i.want(t, "POST", "/resorts/1/seasons", `{"year":"2019"}`, 201, "{}")
		i.want(t, "POST", "/resorts/1/seasons", `{"year":"2019"}`, 201, "{}")
		i.want(t, "GET", "/resorts/1/seasons", "", 200, `{"seasons":["2019","2025"]}`)
		if _, err := i.db.Execute(t.Context(), dbOptions, sql("DELETE FROM ski_resorts WHERE resort_id = 3")); err != nil {
			t.Fatal(err)
		}
		i.want(t, "POST", "/resorts/3/seasons", `{"year":"2019"}`, 404, "")
		i.want(t, "GET", "/resorts/3/seasons", "", 404, `{"message":"no such resort"}`)
	})
	t.Run("Refusals", func(t *testing.T) {
		ride := post(1, 2025, 2, 9)
		for _, tt := range []struct {
			method, path, body string
			status             int
		}{
			{"GET", "/foo", "", 404},
			{"GET", "/foo/livez", "", 404},
			{"GET", "/skiers/1", "", 404},
			{"GET", "/resorts/", "", 404},
			{"GET", "/a/b/resorts", "", 404},
			{"GET", "/resorts/1/seasons/2025/day/2/skier", "", 404},
			{"POST", "/resorts/x/seasons", `{"year":"2019"}`, 400},
			{"POST", "/resorts/1/seasons", `{"year":2019}`, 400},
			{"POST", "/resorts/1/seasons", `{"year":"19"}`, 400},
			{"POST", "/resorts/1/seasons", `{}`, 400},
			{"GET", "/skiers/7/vertical", "", 400},
			{"GET", "/skiers/7/vertical?resort=4", "", 400},
			{"GET", "/skiers/7/vertical?resort=1&season=x", "", 400},
			{"GET", post(4, 2025, 2, 9), "", 400},
			{"GET", post(1, 25, 2, 9), "", 400},
			{"GET", post(1, 2025, 367, 9), "", 400},
			{"GET", post(1, 2025, 2, 0), "", 400},
			{"GET", "/skiers/1/seasons/2025/days/2/skiers/+9", "", 400},
			{"POST", ride, `{"time":0,"liftID":1}`, 400},
			{"POST", ride, `{"time":1,"liftID":61}`, 400},
			{"POST", ride, `{"time":1}`, 400},
			{"POST", ride, `{"time":1,"liftID":1,"x":1}`, 400},
			{"POST", ride, `{"time":1,"liftID":1,"time":1}`, 400},
			{"POST", ride, `{"time":1,"liftID":1}{}`, 400},
			{"POST", ride, `{"time":1,"liftID":"1"}`, 400},
			{"POST", ride, `{"time":1,"liftID":1`, 400},
			{"POST", ride, `{"time":1,"liftID":1,"waitTime":null}`, 400},
			{"POST", ride, ``, 400},
			{"POST", ride, `[]`, 400},
			{"POST", ride, `{"time" 1}`, 400},
			{"POST", ride, strings.Repeat(" ", 70<<10) + "{}", 413},
			{"GET", "/writes/unknown", "", 404},
			{"GET", ride + "?level=fast", "", 400},
			{"GET", ride + "?level=weak%26associative", "", 400},
		} {
			if r := i.want(t, tt.method, tt.path, tt.body, tt.status, ""); !strings.HasPrefix(r.body, `{"message":"`) {
				t.Errorf("%s: got %s, want a message", tt.path, r.body)
			}
		}
		i.want(t, "GET", ride, "", 503, "", "X-Min-Seq", "99999999")
		i.want(t, "GET", ride, "", 410, "", "X-Min-Seq", "1", "X-Cluster-Id", strings.Repeat("1", 32))
		for path, allow := range map[string]string{"/resorts": "GET, HEAD", ride: "GET, HEAD, POST"} {
			if r := i.want(t, "PUT", path, "", 405, ""); r.header.Get("Allow") != allow {
				t.Errorf("%s: got Allow %q, want %q", path, r.header.Get("Allow"), allow)
			}
		}
		if n := i.rows(t, "skier_id = 9"); n != 0 {
			t.Errorf("refused rides: got %d rows, want none", n)
		}
	})
	t.Run("Operations", func(t *testing.T) {
		i.want(t, "GET", "/livez", "", 200, "{}")
		i.want(t, "GET", "/readyz", "", 200, "{}")
		if r := i.want(t, "GET", "/", "", 200, ""); !strings.Contains(r.body, "EventSource") {
			t.Error("GET / is not the dashboard")
		}
		if r := i.want(t, "GET", "/statistics", "", 200, ""); !strings.Contains(r.body, `"URL":"`+ridePath+`","max":`) || !strings.Contains(r.body, `"operation":"POST"`) {
			t.Errorf("statistics: got %s", r.body)
		}
	})
}

// The queries' answers are those of a model, after thousands of rides through two instances, with X-Min-Seq and strong.
func TestQueries_EqualAModel(t *testing.T) {
	database := uptest.Start(t)
	instances := []*instance{newInstance(t, database, nil), newInstance(t, database, func(c *config) { c.batch = 7 })}
	const skiers, days, lifts = 9, 3, 5
	type ride struct{ resort, season, day, skier, lift, time int }
	random := rand.New(rand.NewPCG(1, 2))
	rides := make([]ride, 1500)
	var group sync.WaitGroup
	var mu sync.Mutex
	last := uint64(0)
	for n := range rides {
		rides[n] = ride{1 + random.IntN(2), 2024 + random.IntN(2), 1 + random.IntN(days), 1 + random.IntN(skiers), 1 + random.IntN(lifts), 1 + random.IntN(180)}
	}
	for part := range slices.Chunk(rides, 50) {
		group.Go(func() {
			for n, r := range part {
				a, err := instances[n%2].try(t.Context(), "POST", post(r.resort, r.season, r.day, r.skier), fmt.Sprintf(`{"time":%d,"liftID":%d}`, r.time, r.lift))
				if err != nil || a.status != http.StatusCreated {
					t.Errorf("got %v, %v, want 201", a, err)
					return
				}
				mu.Lock()
				last = max(last, seqOf(t, a))
				mu.Unlock()
			}
		})
	}
	group.Wait()
	sum := func(value func(ride) int, keep func(ride) bool) map[int]int {
		by := map[int]int{}
		for _, r := range rides {
			if keep(r) {
				by[value(r)] += r.lift * 10
			}
		}
		return by
	}
	model := map[string]string{}
	for resort := 1; resort <= 2; resort++ {
		for day := 1; day <= days; day++ {
			skiersSeen, hours := map[int]bool{}, map[int]int{}
			for _, r := range rides {
				if r.resort == resort && r.season == 2025 && r.day == day {
					skiersSeen[r.skier] = true
					hours[(r.time-1)/60]++
				}
			}
			place := fmt.Sprintf("/resorts/%d/seasons/2025/day/%d/", resort, day)
			model[place+"skiers"] = fmt.Sprintf(`{"numSkiers":%d,"time":"Resort %d"}`, len(skiersSeen), resort)
			list := []map[string]int{}
			for _, hour := range slices.Sorted(maps.Keys(hours)) {
				list = append(list, map[string]int{"hour": hour, "rides": hours[hour]})
			}
			model[place+"hours"] = toJSON(t, map[string]any{"hours": list})
			for skier := 1; skier <= skiers; skier++ {
				one := sum(func(ride) int { return 0 }, func(r ride) bool { return r.resort == resort && r.season == 2025 && r.day == day && r.skier == skier })
				model[post(resort, 2025, day, skier)] = fmt.Sprint(one[0])
			}
		}
	}
	for skier := 1; skier <= skiers; skier++ {
		list := []map[string]any{}
		by := sum(func(r ride) int { return r.day }, func(r ride) bool { return r.season == 2024 && r.skier == skier })
		for _, day := range slices.Sorted(maps.Keys(by)) {
			list = append(list, map[string]any{"dayID": day, "vertical": by[day]})
		}
		model[fmt.Sprintf("/skiers/%d/seasons/2024/verticals", skier)] = toJSON(t, map[string]any{"days": list})
	}
	for n, path := range slices.Sorted(maps.Keys(model)) {
		i := instances[n%2]
		i.want(t, "GET", path, "", 200, model[path], "X-Min-Seq", fmt.Sprint(last))
		i.want(t, "GET", path, "", 200, model[path], "X-Min-Seq", fmt.Sprint(last)) // from the cache, as a rule
		i.want(t, "GET", path+"?level=strong", "", 200, model[path])
	}
	for _, i := range instances { // The feed brings what another instance wrote.
		testenv.Eventually(t, limit, func() error { return i.dashboardEquals(t, int64(len(rides)), model) })
	}
}

// dashboardEquals compares the dashboard with the model's answers.
func (i *instance) dashboardEquals(t *testing.T, rides int64, model map[string]string) error {
	t.Helper()
	shown := i.dashboard.shown()
	if shown["rides"] != rides || shown["connected"] != true {
		return fmt.Errorf("got %v rides, connected %v, want %d", shown["rides"], shown["connected"], rides)
	}
	for _, d := range shown["days"].([]object) {
		place := fmt.Sprintf("/resorts/%d/seasons/%d/day/%d/", d["resortID"], d["seasonID"], d["dayID"])
		if d["seasonID"] != int64(2025) {
			continue
		}
		list := []map[string]int64{}
		by := d["hours"].(map[int64]int64)
		sum := int64(0)
		for _, hour := range slices.Sorted(maps.Keys(by)) {
			list = append(list, map[string]int64{"hour": hour, "rides": by[hour]})
			sum += by[hour]
		}
		if d["rides"] != sum {
			return fmt.Errorf("%s: got %v rides, want %d", place, d["rides"], sum)
		}
		hours := toJSON(t, object{"hours": list})
		skiers := fmt.Sprintf(`{"numSkiers":%d,"time":"Resort %d"}`, d["skiers"], d["resortID"])
		if want := cmp.Or(model[place+"hours"], "none"); hours != want || skiers != model[place+"skiers"] {
			return fmt.Errorf("%s: got %s %s, want %s %s", place, hours, skiers, want, model[place+"skiers"])
		}
	}
	return nil
}
