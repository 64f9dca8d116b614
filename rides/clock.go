package rides

import (
	"fmt"
	"time"
	_ "time/tzdata" // The image has no time zone files.

	"rideshare/internal/dbaas"
)

// timestampLayout shows the form of a timestamp: seconds come first.
const timestampLayout = "DD-MM-YYYY:SS-MM-HH"

// CheckTimestamp returns CodeInvalid unless s is a real date and time in the form DD-MM-YYYY:SS-MM-HH: with every digit,
// Gregorian leap years, years from 0001, hours up to 23, no leap second. Past times are valid.
func CheckTimestamp(s string) error {
	bad := dbaas.Errorf(dbaas.CodeInvalid, "the timestamp is not a real time in the form %s", timestampLayout)
	if len(s) != len(timestampLayout) {
		return bad
	}
	for i := range len(s) {
		switch want := timestampLayout[i]; {
		case want == '-' || want == ':':
			if s[i] != want {
				return bad
			}
		case s[i] < '0' || s[i] > '9':
			return bad
		}
	}
	day, month, year := number(s[0:2]), number(s[3:5]), number(s[6:10])
	second, minute, hour := number(s[11:13]), number(s[14:16]), number(s[17:19])
	if year < 1 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59 {
		return bad
	}
	return nil
}

// number returns the value of digits, which must contain only digits.
func number(digits string) int {
	n := 0
	for i := range len(digits) {
		n = 10*n + int(digits[i]-'0')
	}
	return n
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// Clock returns a clock that runs at the speed of system but starts at at, a time in RFC 3339. If at is empty, Clock
// returns system itself.
func Clock(system func() time.Time, at string) (func() time.Time, error) {
	if at == "" {
		return system, nil
	}
	start, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return nil, fmt.Errorf("clock %q is not RFC 3339, like 2030-01-31T09:00:00Z: %w", at, err)
	}
	// The time from now to start may be longer than the 292 years of a duration. Without a monotonic reading in begin, the
	// clock keeps its offset when the system's clock is set.
	begin := system().Round(0)
	return func() time.Time { return start.Add(system().Sub(begin)) }, nil
}

// Location returns a time zone by its IANA name, from the system or the built-in data.
func Location(name string) (*time.Location, error) {
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known, an example is Asia/Kolkata: %w", name, err)
	}
	return loc, nil
}
