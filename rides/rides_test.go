package rides_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/rides"
)

// Exactly the real dates and times, in exactly the one form, are taken.
func TestCheckTimestamp(t *testing.T) {
	for _, good := range []string{
		"01-01-2031:00-00-00", "31-12-9999:59-59-23", "29-02-2000:00-00-12", "29-02-2024:00-00-12", "30-04-2024:00-00-12", "01-01-0001:00-00-00",
	} {
		if err := rides.CheckTimestamp(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "00-01-2031:00-00-00", "32-01-2031:00-00-00", "31-04-2031:00-00-00", "29-02-2023:00-00-00", "29-02-1900:00-00-00", "30-02-2024:00-00-00",
		"01-00-2031:00-00-00", "01-13-2031:00-00-00", "01-01-0000:00-00-00", "01-01-2031:60-00-00", "01-01-2031:00-60-00", "01-01-2031:00-00-24",
		"1-01-2031:00-00-00", "01-01-2031:0-00-000", "01-01-31:00-00-00", "01/01/2031:00-00-00", "01-01-2031 00-00-00", "01-01-2031:00:00:00",
		" 01-01-2031:00-00-00", "01-01-2031:00-00-00 ", "01-01-2031:00-00-00\n", "+1-01-2031:00-00-00", "0a-01-2031:00-00-00", "-1-01-2031:00-00-00",
		"٠١-01-2031:00-00", "2031-01-01T00:00:00",
	} {
		if err := rides.CheckTimestamp(bad); dbaas.CodeOf(err) != dbaas.CodeInvalid {
			t.Errorf("%q: got %v, want CodeInvalid", bad, err)
		}
	}
}

// The check agrees with package time about every day around leap years.
func TestCheckTimestamp_AgreesWithCalendar(t *testing.T) {
	for _, year := range []int{1899, 1900, 1904, 1999, 2000, 2023, 2024, 2100, 2400} {
		for month := 1; month <= 12; month++ {
			for day := 1; day <= 31; day++ {
				exists := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() == day
				text := two(day) + "-" + two(month) + "-" + strconv.Itoa(year) + ":00-00-00"
				if got := rides.CheckTimestamp(text) == nil; got != exists {
					t.Errorf("%s: got %v, want %v", text, got, exists)
				}
			}
		}
	}
}

func two(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}

// For any input: an accepted timestamp is a real time that package time can parse.
func FuzzCheckTimestamp(f *testing.F) {
	f.Add("29-02-2024:00-00-12")
	f.Add("31-04-2031:59-59-23")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := time.Parse("02-01-2006:05-04-15", text)
		zero := len(text) == 19 && text[6:10] == "0000"
		if taken := rides.CheckTimestamp(text) == nil; taken && err != nil {
			t.Errorf("%q was taken, package time says %v", text, err)
		} else if !taken && err == nil && len(text) == 19 && !zero {
			t.Errorf("%q was refused, package time reads it", text)
		}
	})
}

// An area has one spelling, as number or as text.
func TestArea_UnmarshalJSON(t *testing.T) {
	for text, want := range map[string]rides.Area{"22": 22, `"22"`: 22, "1": 1, `"\u0031"`: 1, "999999999": 999999999} {
		var got rides.Area
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "-1", "1.0", "1e1", `"01"`, `" 1"`, `"1 "`, `""`, "null", "true", "[]", "{}", "1000000000"} {
		var got rides.Area
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s: got %d, want an error", text, got)
		}
	}
}

// A set clock starts at its time and runs like the real one; a wrong one says how it should look.
func TestClock(t *testing.T) {
	system := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := func() time.Time { return system }
	for at, want := range map[string]time.Time{
		"2030-05-01T10:00:00+05:30": time.Date(2030, 5, 1, 5, 30, 0, 0, time.UTC),
		"1600-01-01T00:00:00Z":      time.Date(1600, 1, 1, 1, 0, 0, 0, time.UTC),
		"9999-12-31T22:00:00Z":      time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC),
	} {
		clock, err := rides.Clock(now, at)
		if err != nil {
			t.Fatal(err)
		}
		system = system.Add(time.Hour)
		if got := clock(); !got.Equal(want) {
			t.Errorf("%s: got %v an hour later, want %v", at, got, want)
		}
	}
	unset, err := rides.Clock(now, "")
	if err != nil || !unset().Equal(system) {
		t.Errorf("unset: got %v, %v", unset(), err)
	}
	for _, bad := range []string{"x", "2030-05-01", "2030-05-01T10:00:00"} {
		if _, err := rides.Clock(now, bad); err == nil {
			t.Errorf("%q: got nil, want an error", bad)
		}
	}
	if _, err := rides.Location("Asia/Nowhere"); err == nil {
		t.Error("unknown zone: got nil, want an error")
	}
}
