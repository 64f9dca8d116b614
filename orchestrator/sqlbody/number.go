package sqlbody

import (
	"math"
	"strconv"

	"rideshare/internal/dbaas"
)

// number reads an integer exactly if it fits into 64 bits, and any other number as a float. Numbers beyond the range of
// floats are rejected: infinity is not valid JSON.
func (s *scanner) number() (dbaas.Value, error) {
	start := s.at
	if s.b[s.at] == '-' {
		s.at++
	}
	if s.at < len(s.b) && s.b[s.at] == '0' {
		s.at++
	} else if s.digits() == 0 {
		return dbaas.Value{}, s.malformed()
	}
	whole := true
	if s.at < len(s.b) && s.b[s.at] == '.' {
		whole = false
		if s.at++; s.digits() == 0 {
			return dbaas.Value{}, s.malformed()
		}
	}
	if s.at < len(s.b) && (s.b[s.at] == 'e' || s.b[s.at] == 'E') {
		whole = false
		s.at++
		if s.at < len(s.b) && (s.b[s.at] == '+' || s.b[s.at] == '-') {
			s.at++
		}
		if s.digits() == 0 {
			return dbaas.Value{}, s.malformed()
		}
	}
	return toNumber(string(s.b[start:s.at]), whole)
}

func toNumber(literal string, whole bool) (dbaas.Value, error) {
	if whole {
		if v, err := strconv.ParseInt(literal, 10, 64); err == nil {
			return dbaas.Integer(v), nil
		}
	}
	v, err := strconv.ParseFloat(literal, 64)
	if err != nil || math.IsInf(v, 0) {
		return dbaas.Value{}, invalid("number out of range")
	}
	return dbaas.Float(v), nil
}

func (s *scanner) digits() int {
	start := s.at
	for s.at < len(s.b) && s.b[s.at] >= '0' && s.b[s.at] <= '9' {
		s.at++
	}
	return s.at - start
}
