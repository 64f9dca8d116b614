package dbaas_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
)

// An id made from a time sorts by that time, is a UUIDv7, and reads back from its text.
func TestNewOpID_LaterTime_SortsLater(t *testing.T) {
	early := dbaas.NewOpID(time.UnixMilli(1_000_000))
	late := dbaas.NewOpID(time.UnixMilli(1_000_001))
	if early.String() >= late.String() {
		t.Errorf("got %v before %v, want it the other way round", late, early)
	}
	if got := early.String()[14]; got != '7' {
		t.Errorf("version: got %c, want 7", got)
	}
	back, err := dbaas.ParseOpID(early.String())
	if err != nil || back != early {
		t.Errorf("read back: got %v, %v, want %v", back, err, early)
	}
}

// The same key gives the same id; another key gives another id.
func TestOpIDFromKey_SameKey_SameID(t *testing.T) {
	first := dbaas.OpIDFromKey("a")
	if again := dbaas.OpIDFromKey("a"); again != first {
		t.Error("the same key gave two ids")
	}
	if other := dbaas.OpIDFromKey("b"); other == first {
		t.Error("two keys gave one id")
	}
}

// Text that is not a UUID is refused.
func TestParseOpID_NotAUUID_Refused(t *testing.T) {
	for _, s := range []string{"", "x", "00000000000000000000000000000000", "0198f2c4-7c4e-7b1a-9c52-3f6d8b0a1e2", "0198f2c4-7c4e-7b1a-9c52-3f6d8b0a1e2g", "0198f2c4+7c4e-7b1a-9c52-3f6d8b0a1e2d"} {
		if _, err := dbaas.ParseOpID(s); !errors.Is(err, dbaas.ErrBadOpID) {
			t.Errorf("%q: got %v, want %v", s, err, dbaas.ErrBadOpID)
		}
	}
}

// errors.Is matches by code through any wrapping, and only by code.
func TestError_Is_MatchesTheCode(t *testing.T) {
	cause := errors.New("disk")
	err := fmt.Errorf("commit: %w", dbaas.WrapError(dbaas.CodeStaleEpoch, "too old", cause))
	if !errors.Is(err, dbaas.ErrStaleEpoch) || !errors.Is(err, cause) {
		t.Errorf("%v does not match its code and its cause", err)
	}
	if errors.Is(err, dbaas.ErrGone) {
		t.Errorf("%v matches another code", err)
	}
	if got := dbaas.CodeOf(err); got != dbaas.CodeStaleEpoch {
		t.Errorf("code: got %q, want %q", got, dbaas.CodeStaleEpoch)
	}
	if got := dbaas.CodeOf(cause); got != dbaas.CodeInternal {
		t.Errorf("code of a foreign error: got %q, want %q", got, dbaas.CodeInternal)
	}
	if got := dbaas.CodeOf(nil); got != dbaas.CodeOK {
		t.Errorf("code of nil: got %q, want none", got)
	}
}

// A cluster id is encoded as 32 digits, the zero id as empty text; anything else is refused.
func TestClusterID_Text_RoundTrip(t *testing.T) {
	for _, id := range []dbaas.ClusterID{{}, {1, 15: 255}, dbaas.NewClusterID()} {
		text, err := id.MarshalText()
		var got dbaas.ClusterID
		if err = errors.Join(err, got.UnmarshalText(text)); err != nil || got != id || len(text) != 32 && !id.IsZero() {
			t.Errorf("%s: got %q, then %s, %v", id, text, got, err)
		}
	}
	for _, text := range []string{"1", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("x", 32), strings.Repeat("0", 64)} {
		if err := new(dbaas.ClusterID).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken for a cluster id", text)
		}
	}
	if first, second := dbaas.NewClusterID(), dbaas.NewClusterID(); first == second {
		t.Error("two new ids are the same")
	}
}
