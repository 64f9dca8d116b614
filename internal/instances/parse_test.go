package instances_test

import (
	"strings"
	"testing"

	"rideshare/internal/instances"
)

// A list of addresses is taken as it is meant, or refused with an error that names the wrong element.
func TestParse(t *testing.T) {
	for _, tt := range []struct{ list, want string }{
		{"http://a:1", ""},
		{"http://a:1/", ""},
		{"http://user@a:1/path", ""}, // one address, as ever
		{"http://a:1, http://b:1/,http://a:2", ""},
		{"https://a:1,https://b:1", ""},
		{"", `"" is not http://host:port`},
		{"a:1", `"a:1" is not http://host:port`},
		{"http://", `"http://" is not http://host:port`},
		{"http://a:1,", `an address of "http://a:1," is empty`},
		{"http://a:1,,http://b:1", `an address of "http://a:1,,http://b:1" is empty`},
		{"http://a:1,b:1", `"b:1" is not http://host:port`},
		{"http://a:1,http://b:1,http://A:1/", `"http://A:1" is there twice`},
		{"http://a:1,https://b:1", `"http://a:1" and "https://b:1": either all addresses are http, or all are https`},
		{"http://a:1,http://b:1/path", `"http://b:1/path" is not http://host:port: nothing may stand beside`},
		{"http://a:1/path,http://b:1", `"http://a:1/path" is not`},
		{"http://a:1,http://b:1?x", `"http://b:1?x" is not`},
		{"http://a:1,http://ann:secret@b:1", `"http://ann:xxxxx@b:1" is not`},
	} {
		urls, err := instances.Parse(strings.Split(tt.list, ","))
		switch {
		case tt.want == "" && (err != nil || len(urls) != strings.Count(tt.list, ",")+1):
			t.Errorf("%s: got %v, %v", tt.list, urls, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got %v, want %q", tt.list, err, tt.want)
		}
	}
	if _, err := instances.Parse(nil); err == nil {
		t.Error("no address: got nil, want an error")
	}
}
