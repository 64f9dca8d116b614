package workerapi_test

import (
	"slices"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
)

// Tables that differ, and those that only one side has, are named in order, whichever side comes first.
func TestDiffer_NamesWhatIsNotTheSame(t *testing.T) {
	persdb := dbaas.TableHashes{Seq: 3, Tables: map[string]string{"a": "1", "b": "2", "d": "4", "empty": ""}}
	for _, tc := range []struct {
		tables map[string]string
		want   []string
	}{
		{map[string]string{"a": "1", "b": "2", "d": "4", "empty": ""}, nil},
		{map[string]string{"a": "1", "b": "x", "c": "3", "d": "4", "empty": ""}, []string{"b", "c"}},
		{map[string]string{"a": "1", "b": "2", "d": "4"}, []string{"empty"}},
		{nil, []string{"a", "b", "d", "empty"}},
	} {
		other := dbaas.TableHashes{Seq: 3, Tables: tc.tables}
		if got := workerapi.Differ(persdb, other); !slices.Equal(got, tc.want) {
			t.Errorf("%v: got %v, want %v", tc.tables, got, tc.want)
		}
		if got := workerapi.Differ(other, persdb); !slices.Equal(got, tc.want) {
			t.Errorf("%v, the other way round: got %v, want %v", tc.tables, got, tc.want)
		}
	}
}
