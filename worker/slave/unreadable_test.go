package slave_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
)

// While the replica counts as readable but cannot be opened, reads try again at intervals. They are answered once it can be
// opened, and otherwise refused at their deadlines.
func TestExecutor_Serve_UnreadableReplica_ReadsWait(t *testing.T) {
	for name, again := range map[string]bool{"First": false, "Again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus, source := newBus(), newSource(5)
				source.setBroken(true)
				e := newExecutor(source, bus)
				d, req := request(t, read("soon", 200*time.Millisecond), read("late", time.Second))
				req.Again = again
				go func() {
					<-time.After(500 * time.Millisecond)
					source.setBroken(false)
				}()
				e.Serve(t.Context(), d, req)
				e.Wait()
				results, at := bus.answers()
				want := map[int]dbaas.Code{0: dbaas.CodeNotCaughtUp, 1: ""}
				if diff := cmp.Diff(want, codes(results)); diff != "" {
					t.Errorf("codes (-want +got):\n%s", diff)
				}
				if at[0] > 250*time.Millisecond || at[1] > 550*time.Millisecond {
					t.Errorf("answered after %v and %v, want at most 50ms after 200ms and 500ms", at[0], at[1])
				}
				if source.tries > 20 {
					t.Errorf("tried %d times in half a second, want one try each 50 ms", source.tries)
				}
			})
		})
	}
}
