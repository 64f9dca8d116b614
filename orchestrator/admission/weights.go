package admission

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxWeight is the largest weight of a user.
const maxWeight = 1000

// ParseWeights reads the weights of users, such as ann=3,bob=2. For an empty text the map is empty.
func ParseWeights(text string) (map[string]int, error) {
	weights := map[string]int{}
	if text == "" {
		return weights, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		user, number, _ := strings.Cut(part, "=")
		weight, err := strconv.Atoi(number)
		if _, twice := weights[user]; err != nil || twice || user == "" || weight < 1 || weight > maxWeight {
			return nil, fmt.Errorf("%q is not a user and a weight from 1 to %d, as ann=3, each user once", part, maxWeight)
		}
		weights[user] = weight
	}
	return weights, nil
}

// Settings returns the settings of these lanes.
func (l Lanes) Settings() LaneSettings {
	s := LaneSettings{Read: l.Read, Write: l.Write}
	for _, lane := range []*LaneSetting{&s.Read, &s.Write} {
		if !lane.Adaptive {
			lane.Limit = lane.limit()
		}
	}
	var parts []string
	for _, user := range slices.Sorted(maps.Keys(l.Weights)) {
		parts = append(parts, user+"="+strconv.Itoa(l.Weights[user]))
	}
	s.Weights = strings.Join(parts, ",")
	return s
}
