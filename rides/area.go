package rides

import (
	_ "embed" // for areas.csv
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"rideshare/internal/dbaas"
)

//go:embed areas.csv
var areasCSV string

// AreasCSV returns the numbers and names of the areas, with a line of headings.
func AreasCSV() string { return areasCSV }

// Area is the number of an area. The existing areas are in areas.csv.
//
// Each area has exactly one spelling: its decimal digits without sign, space, leading zero, fraction or exponent, as a
// JSON number or as a string. So 22 and "22" are the same area, and 22.0, 2.2e1, "022" and " 22" are invalid.
type Area int64

// maxAreaDigits keeps the number far from overflowing.
const maxAreaDigits = 9

// ParseArea reads the decimal digits of an area. It returns CodeInvalid for anything else. It does not check whether the
// area exists.
func ParseArea(digits string) (Area, error) {
	bad := digits == "" || len(digits) > maxAreaDigits || digits[0] == '0'
	for i := range len(digits) {
		bad = bad || digits[i] < '0' || digits[i] > '9'
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if bad || err != nil {
		return 0, dbaas.Errorf(dbaas.CodeInvalid, "an area is not a number")
	}
	return Area(n), nil
}

// UnmarshalJSON reads a JSON number or a JSON string of digits.
func (a *Area) UnmarshalJSON(raw []byte) error {
	digits := string(raw)
	if strings.HasPrefix(digits, `"`) {
		if err := json.Unmarshal(raw, &digits); err != nil {
			return fmt.Errorf("area: %w", err)
		}
	}
	var err error
	*a, err = ParseArea(digits)
	return err
}

// readAreas returns the names of all areas by number.
func readAreas() (map[Area]string, error) {
	rows, err := csv.NewReader(strings.NewReader(areasCSV)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read areas: %w", err)
	}
	areas := make(map[Area]string, len(rows))
	for _, row := range rows[min(1, len(rows)):] { // The first line is a heading.
		area, err := ParseArea(row[0])
		if err != nil {
			return nil, fmt.Errorf("area %q: %w", row[0], err)
		}
		areas[area] = row[1]
	}
	return areas, nil
}
