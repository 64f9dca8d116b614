package admission_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"rideshare/orchestrator/admission"
)

// One window from limit 100 and a usual time of 10 ms.
func TestGradient_Next(t *testing.T) {
	for _, c := range []struct {
		name          string
		short         float64 // ms
		inFlight      int
		failed        bool
		limit, long10 float64 // long10 is the usual time afterwards, in ms
	}{
		{"AsUsual", 10, 100, false, 102, 10},
		{"Twice", 20, 100, false, 97, 10.03},
		{"ThreeTimes", 30, 100, false, 92, 10.07},
		{"SixTimes", 60, 100, false, 92, 10.17},
		{"NotHalfFull", 30, 49, false, 100, 10.07},
		{"HalfFull", 30, 50, false, 92, 10.07},
		{"MuchFaster", 4, 100, false, 102, 4},
		{"Failed", 10, 100, true, 90, 10},
		{"FailedNotHalfFull", 10, 1, true, 90, 10},
		{"NoAnswer", 0, 100, false, 100, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := admission.Gradient{Limit: 100, Long: 0.010}.Next(admission.Window{Short: c.short / 1000, InFlight: c.inFlight, Failed: c.failed})
			if math.Round(got.Limit) != c.limit || math.Abs(got.Long*1000-c.long10) > 0.005 {
				t.Errorf("got limit %v and usual time %v ms, want %v and %v ms", got.Limit, got.Long*1000, c.limit, c.long10)
			}
		})
	}
}

// The limit stays within 16 and 8192.
func TestGradient_Next_Bounds(t *testing.T) {
	low, high := admission.Gradient{Limit: 17, Long: 1}, admission.Gradient{Limit: 8190, Long: 1}
	for range 100 {
		low = low.Next(admission.Window{Short: 1, Failed: true})
		high = high.Next(admission.Window{Short: 1, InFlight: 8192})
	}
	if low.Limit != 16 || high.Limit != 8192 {
		t.Errorf("got limits %v and %v, want 16 and 8192", low.Limit, high.Limit)
	}
}

// A window ends after 100 answers, or with the first operation that ends a second after it began.
func TestLaneLimit_Windows(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	l := admission.NewLaneLimit(admission.LaneSetting{Adaptive: true, Limit: 100})
	end := func(count int, took time.Duration, how admission.LaneEnd) {
		for range count {
			l.Allows(99)
			l.Ended(how, now, took)
		}
	}
	want := func(what string, limit int) {
		t.Helper()
		if got := l.Limit(); got != limit {
			t.Errorf("%s: got limit %d, want %d", what, got, limit)
		}
	}
	end(99, 10*time.Millisecond, admission.LaneAnswered)
	want("99 answers", 100)
	end(1, 10*time.Millisecond, admission.LaneAnswered)
	want("100 answers", 102)
	end(100, 60*time.Millisecond, admission.LaneAnswered)
	want("slow answers", 94)
	end(1, 10*time.Millisecond, admission.LaneFailed)
	want("a failure in an open window", 94)
	now = now.Add(time.Second)
	end(1, 10*time.Millisecond, admission.LaneAnswered)
	want("a window of a second with a failure", 84)
	if l.Allows(84) || !l.Allows(83) {
		t.Error("the lane does not take exactly 84 operations")
	}
	end(1, 10*time.Millisecond, admission.LaneLate)
	now = now.Add(time.Second)
	end(1, 0, admission.LaneIgnored)
	want("a deadline shorter than usual", 84)
	end(1, 30*time.Millisecond, admission.LaneLate)
	now = now.Add(time.Second)
	end(1, 0, admission.LaneIgnored)
	want("a deadline longer than usual", 76)
}

// A fixed limit is what was set, whatever happens. The default is 1024.
func TestLaneLimit_Fixed(t *testing.T) {
	l := admission.NewLaneLimit(admission.LaneSetting{})
	for range 200 {
		l.Ended(admission.LaneFailed, time.Now(), time.Second)
	}
	if l.Limit() != 1024 || l.Allows(1024) || !l.Allows(1023) {
		t.Errorf("got limit %d, want 1024", l.Limit())
	}
}

// A limit follows its setting. One that becomes adaptive starts at the present limit, at most 64, unless it has a number
// of its own. A limit that is adaptive already stays as it is.
func TestLaneLimit_Set(t *testing.T) {
	l := admission.NewLaneLimit(admission.LaneSetting{Limit: 40})
	for _, c := range []struct {
		setting admission.LaneSetting
		limit   int
	}{
		{admission.LaneSetting{Adaptive: true}, 40},
		{admission.LaneSetting{Limit: 7}, 7},
		{admission.LaneSetting{}, 1024},
		{admission.LaneSetting{Adaptive: true}, 64},
		{admission.LaneSetting{Adaptive: true, Limit: 100}, 100},
		{admission.LaneSetting{Adaptive: true}, 100},
	} {
		l.Set(c.setting)
		if l.Limit() != c.limit || l.Adaptive() != c.setting.Adaptive || l.Allows(c.limit) || !l.Allows(c.limit-1) {
			t.Errorf("%s: got limit %d, adaptive %v, want %d", c.setting, l.Limit(), l.Adaptive(), c.limit)
		}
	}
}

// In JSON a setting is a number or "adaptive".
func TestLaneSetting_JSON(t *testing.T) {
	for text, want := range map[string]admission.LaneSetting{"4096": {Limit: 4096}, "1": {Limit: 1}, `"adaptive"`: {Adaptive: true}} {
		var got admission.LaneSetting
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
		if again, err := json.Marshal(got); err != nil || string(again) != text {
			t.Errorf("%+v: got %s, %v, want %s", got, again, err, text)
		}
	}
	for _, text := range []string{`0`, `-1`, `1.5`, `"5"`, `"x"`, `adaptive`, `[]`, `true`} {
		if err := json.Unmarshal([]byte(text), new(admission.LaneSetting)); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

// A setting is a number or "adaptive".
func TestLaneSetting_UnmarshalText(t *testing.T) {
	for text, want := range map[string]admission.LaneSetting{"4096": {Limit: 4096}, "1": {Limit: 1}, "adaptive": {Adaptive: true}} {
		var got admission.LaneSetting
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "x", "1.5", "Adaptive", "99999999999999999999"} {
		if err := new(admission.LaneSetting).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
