package e2e

import (
	"fmt"
	"net/http"
	"testing"
)

// Only future rides are listed, by the service's own clock in its own time zone. At 18:30 UTC it is midnight in India,
// five and a half hours ahead: the same rides are past there and in the future in UTC.
func TestRides_List_HasOnlyRidesToComeByClockAndZone(t *testing.T) {
	for zone, want := range map[string][]string{
		"Asia/Kolkata": {"01-02-2030:00-10-00", "02-02-2030:00-00-00", "01-01-2031:00-00-00"},
		"UTC":          {"31-01-2030:00-10-23", "01-02-2030:00-10-00", "02-02-2030:00-00-00", "01-01-2031:00-00-00"},
	} {
		t.Run(zone, func(t *testing.T) {
			sys := start(t, setup{env: []string{"RIDES_CLOCK=2030-01-31T18:30:00Z", "RIDES_TIMEZONE=" + zone}})
			sys.PutUser(t, "ann")
			ids := map[string]int64{}
			for _, timestamp := range []string{
				"31-12-2029:59-59-23", "31-01-2030:00-00-12", "31-01-2030:00-20-18", "31-01-2030:00-10-23",
				"01-02-2030:00-10-00", "02-02-2030:00-00-00", "01-01-2031:00-00-00",
			} {
				ids[timestamp] = sys.CreateRide(t, ride{CreatedBy: "ann", Timestamp: timestamp, Source: 1, Destination: 2})
			}
			var listed []map[string]any
			for _, timestamp := range want {
				listed = append(listed, map[string]any{"rideId": ids[timestamp], "username": "ann", "timestamp": timestamp})
			}
			sys.Get(t, sys.ridesURL()+"?source=1&destination=2").expect(t, http.StatusOK, toJSON(listed))
			past := sys.rideURL(ids["31-12-2029:59-59-23"])
			sys.Get(t, past).expect(t, http.StatusOK, anyBody)
		})
	}
}

// When all rides of a route are past, the list is empty.
func TestRides_List_OnlyPastRides_NoContent(t *testing.T) {
	sys := shared(t)
	from, to := newRoute()
	sys.CreateRide(t, ride{CreatedBy: sys.NewUser(t, "ann"), Timestamp: "01-01-2020:00-00-00", Source: from, Destination: to})
	sys.Get(t, fmt.Sprintf("%s?source=%d&destination=%d", sys.ridesURL(), from, to)).expect(t, http.StatusNoContent, "")
}

// A timestamp is DD-MM-YYYY:SS-MM-HH, seconds first, and a date and time that exist.
func TestRides_Timestamp_MustExistAndHasSecondsFirst(t *testing.T) {
	sys := shared(t)
	ann := sys.NewUser(t, "ann")
	for timestamp, status := range map[string]int{
		"26-01-2999:59-10-23":  201,
		"29-02-2028:00-00-00":  201,
		"01-01-2001:00-00-00":  201, // a past one is accepted
		"31-12-2030:59-59-23":  201,
		"26-01-2999:23-10-59":  400, // hour 59: hours come last
		"26-01-2999:00-00-24":  400,
		"26-01-2999:60-00-00":  400,
		"26-01-2999:00-60-00":  400,
		"29-02-2027:00-00-00":  400,
		"29-02-2100:00-00-00":  400,
		"31-04-2030:00-00-00":  400,
		"00-01-2030:00-00-00":  400,
		"32-01-2030:00-00-00":  400,
		"01-00-2030:00-00-00":  400,
		"01-13-2030:00-00-00":  400,
		"12-31-2030:00-00-00":  400,
		"2030-01-26:00-00-00":  400,
		"1-1-2030:0-0-0":       400,
		"26-01-30:00-00-00":    400,
		"26-01-2999 00-00-00":  400,
		"26-01-2999:00:00:00":  400,
		"26/01/2999:00-00-00":  400,
		"26-01-2999:00-00-00 ": 400,
		" 26-01-2999:00-00-00": 400,
		"26-01-2999:00-00":     400,
		"26-01-2999":           400,
		"26-01-2999:-1-00-00":  400,
		"+6-01-2999:00-00-00":  400,
		"":                     400,
		"2999-01-26T00:00:00Z": 400,
		"２６-01-2999:00-00-00":  400, // full-width digits
	} {
		body := rideBody(ann, map[string]any{"timestamp": timestamp})
		if err := sys.Post(t, sys.ridesURL(), body).check(status, "{}"); err != nil {
			t.Errorf("timestamp %q: %v", timestamp, err)
		}
	}
}
