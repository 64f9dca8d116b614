package wire_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wire"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sent is when the requests of these tests are encoded, and by default decoded.
var sent = time.UnixMilli(1_000_000)

// received is decode of a frame that arrives immediately.
func received[T any](decode func([]byte, time.Time) (T, error)) func([]byte) (T, error) {
	return func(b []byte) (T, error) { return decode(b, sent) }
}

// sameAfter checks that the decoded value equals the encoded one.
func sameAfter[T any](t *rapid.T, want T, b []byte, err error, decode func([]byte) (T, error)) {
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	got, err := decode(b)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("decoded is not what was encoded (-want +got):\n%s", diff)
	}
}

// Encoding and decoding preserves every value, for every kind of frame.
func TestFrames_EncodeThenDecode_Same(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reads := wire.ReadRequest{Again: rapid.Bool().Draw(t, "again"), Cluster: drawSixteen(t), Shard: 7, Reads: drawList(t, drawRead)}
		b, err := reads.Encode(sent)
		sameAfter(t, reads, b, err, received(wire.DecodeReadRequest))

		answers := wire.ReadReply{Last: true, Answers: drawList(t, func(t *rapid.T) wire.ReadAnswer {
			return wire.ReadAnswer{Index: rapid.IntRange(0, 300).Draw(t, "index"), Result: dbaas.ReadResult{
				Code: dbaas.Code(drawText(t)), Message: drawText(t), Seq: 9,
				Body: rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "body"),
				Tags: drawTags(t),
			}}
		})}
		b, err = answers.Encode()
		sameAfter(t, answers, b, err, wire.DecodeReadReply)

		held := wire.ReadHeld{Worker: dbaas.WorkerID(drawText(t))}
		if i := rapid.IntRange(-1, 300).Draw(t, "running"); i >= 0 {
			held.Running = &i
		}
		b, err = held.Encode()
		sameAfter(t, held, b, err, wire.DecodeReadHeld)

		writes := wire.WriteRequest{Operations: drawList(t, drawOperation)}
		b, err = writes.Encode(sent)
		sameAfter(t, writes, b, err, received(wire.DecodeWriteRequest))

		results := wire.WriteReply{Answers: drawList(t, func(t *rapid.T) wire.WriteAnswer {
			return wire.WriteAnswer{Index: rapid.IntRange(0, 300).Draw(t, "index"), Result: drawResult(t)}
		})}
		b, err = results.Encode()
		sameAfter(t, results, b, err, wire.DecodeWriteReply)

		entry := drawEntry(t)
		b, err = wire.EncodeEntry(entry)
		sameAfter(t, entry, b, err, wire.DecodeEntry)
		sameChecks(t, b)
		sameChecks(t, b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")])

		entries := drawList(t, drawEntry)
		b, err = encodePage(3, entries)
		sameAfter(t, entries, b, err, wire.DecodeEntries)

		records := drawList(t, func(t *rapid.T) wire.Record {
			return wire.Record{Fingerprint: drawSixteen(t), Result: drawResult(t)}
		})
		b, err = wire.EncodeRecords(0, records)
		sameAfter(t, records, b, err, wire.DecodeRecords)
	})
}

// A deadline is sent as the remaining time, so it survives between two hosts whose clocks are years apart.
func TestRequests_Deadline_IsTheTimeLeft(t *testing.T) {
	there := sent.AddDate(-7, 0, 0)
	for _, c := range []struct{ deadline, want time.Time }{
		{time.Time{}, time.Time{}},
		{sent.Add(5 * time.Second), there.Add(5 * time.Second)},
		{sent, there.Add(-time.Millisecond)},
		{sent.Add(-time.Second), there.Add(-time.Second)},
		{sent.AddDate(1000, 0, 0), there.Add(1 << 40 * time.Millisecond)},
	} {
		body, err := wire.WriteRequest{Operations: []dbaas.Operation{{Deadline: c.deadline}}}.Encode(sent)
		if err != nil {
			t.Fatal(err)
		}
		writes, err := wire.DecodeWriteRequest(body, there)
		if err != nil || !writes.Operations[0].Deadline.Equal(c.want) {
			t.Errorf("write with deadline %v: got %+v and %v, want deadline %v", c.deadline, writes, err, c.want)
		}
		body, err = wire.ReadRequest{Reads: []dbaas.Read{{Format: dbaas.FormatObjects, Deadline: c.deadline}}}.Encode(sent)
		if err != nil {
			t.Fatal(err)
		}
		reads, err := wire.DecodeReadRequest(body, there)
		if err != nil || !reads.Reads[0].Deadline.Equal(c.want) {
			t.Errorf("read with deadline %v: got %+v and %v, want deadline %v", c.deadline, reads, err, c.want)
		}
	}
}

// Not-a-number keeps its bits, which a comparison of values cannot show.
func TestValue_NaN_KeepsItsBits(t *testing.T) {
	in := wire.WriteRequest{Operations: []dbaas.Operation{{Statements: []dbaas.Statement{{
		Args: []dbaas.Value{dbaas.Float(math.NaN()), dbaas.Float(math.Inf(-1))},
	}}}}}
	b, err := in.Encode(sent)
	if err != nil {
		t.Fatal(err)
	}
	out, err := wire.DecodeWriteRequest(b, sent)
	if err != nil {
		t.Fatal(err)
	}
	args := out.Operations[0].Statements[0].Args
	if !math.IsNaN(args[0].Float) || !math.IsInf(args[1].Float, -1) {
		t.Fatalf("got %v, want NaN and -Inf", args)
	}
}

// Every proper prefix of a frame, and a frame with bytes after it, is refused.
func TestDecode_CutOrLongerFrame_Malformed(t *testing.T) {
	full, err := wire.WriteRequest{Operations: []dbaas.Operation{{
		ID: dbaas.OpIDFromKey("k"), Statements: []dbaas.Statement{{SQL: "select ?", Args: []dbaas.Value{dbaas.Text("x")}}},
	}}}.Encode(sent)
	if err != nil {
		t.Fatal(err)
	}
	for n := range full {
		if _, err := wire.DecodeWriteRequest(full[:n], sent); !errors.Is(err, wire.ErrMalformed) {
			t.Fatalf("prefix of %d bytes: got %v, want %v", n, err, wire.ErrMalformed)
		}
	}
	if _, err := wire.DecodeWriteRequest(append(full, 0), sent); !errors.Is(err, wire.ErrMalformed) {
		t.Fatalf("one byte too many: got %v, want %v", err, wire.ErrMalformed)
	}
}

// A frame of another version, another kind or over the limit is refused with its own error.
func TestDecode_WrongHeader_NamesWhy(t *testing.T) {
	good, err := wire.EncodeEntry(dbaas.Entry{Seq: 1})
	if err != nil {
		t.Fatal(err)
	}
	other := append([]byte(nil), good...)
	other[2] = wire.Version + 1
	if _, err := wire.DecodeEntry(other); !errors.Is(err, wire.ErrVersion) {
		t.Errorf("other version: got %v, want %v", err, wire.ErrVersion)
	}
	if _, err := wire.DecodeReadRequest(good, sent); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("other kind: got %v, want %v", err, wire.ErrMalformed)
	}
	if kind, err := wire.KindOf(good); err != nil || kind != wire.KindEntry {
		t.Errorf("KindOf: got %v, %v, want %v", kind, err, wire.KindEntry)
	}
	if _, err := wire.DecodeEntry(make([]byte, wire.MaxBytes+1)); !errors.Is(err, wire.ErrTooLarge) {
		t.Errorf("too large: got %v, want %v", err, wire.ErrTooLarge)
	}
	huge := wire.ReadReply{Answers: []wire.ReadAnswer{{Result: dbaas.ReadResult{Body: make([]byte, wire.MaxBytes)}}}}
	if _, err := huge.Encode(); !errors.Is(err, wire.ErrTooLarge) {
		t.Errorf("encode too large: got %v, want %v", err, wire.ErrTooLarge)
	}
}

// A forged count does not make the decoder allocate more than the frame can hold.
func TestDecode_ForgedCount_AllocatesLittle(t *testing.T) {
	good, err := wire.ReadRequest{}.Encode(sent)
	if err != nil {
		t.Fatal(err)
	}
	forged := append(good[:len(good)-1], 0xff, 0xff, 0xff, 0xff, 0x0f)
	forged = append(forged, strings.Repeat("\x00", 1<<10)...)
	allocated := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := wire.DecodeReadRequest(forged, sent); err == nil {
				b.Fatal("forged frame was accepted")
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 64<<10 {
		t.Fatalf("got %d bytes allocated, want at most 64 KiB", allocated)
	}
}

// Equal statements have equal fingerprints; any change of text, value, place or atomicity changes it.
func TestFingerprintOf_AnyChange_Differs(t *testing.T) {
	base := []dbaas.Statement{{SQL: "a", Args: []dbaas.Value{dbaas.Integer(1)}}, {SQL: "b"}}
	same := []dbaas.Statement{{SQL: "a", Args: []dbaas.Value{dbaas.Integer(1)}}, {SQL: "b"}}
	if wire.FingerprintOf(false, base) != wire.FingerprintOf(false, same) {
		t.Fatal("equal statements have different fingerprints")
	}
	others := map[string]dbaas.Fingerprint{
		"atomic": wire.FingerprintOf(true, base),
		"order":  wire.FingerprintOf(false, []dbaas.Statement{base[1], base[0]}),
		"value":  wire.FingerprintOf(false, []dbaas.Statement{{SQL: "a", Args: []dbaas.Value{dbaas.Text("1")}}, {SQL: "b"}}),
		"fewer":  wire.FingerprintOf(false, base[:1]),
	}
	for name, got := range others {
		if got == wire.FingerprintOf(false, base) {
			t.Errorf("%s: fingerprint did not change", name)
		}
	}
}

// sameChecks fails the test unless CheckEntry accepts b exactly if DecodeEntry does, at the same position.
func sameChecks(t interface {
	Helper()
	Errorf(format string, args ...any)
}, b []byte,
) {
	t.Helper()
	e, want := wire.DecodeEntry(b)
	at, err := wire.CheckEntry(b)
	if (err == nil) != (want == nil) || err == nil && at != (dbaas.Head{Cluster: e.Cluster, Seq: e.Seq, Epoch: e.Epoch}) {
		t.Errorf("%x: got %+v, %v; decoded it is %+v, %v", b, at, err, e, want)
	}
}

// A large entry is sent without its changes, and differs from an entry that has none.
func TestEncodeEntry_LargeIsAway(t *testing.T) {
	change := func(n int) []dbaas.Change {
		return []dbaas.Change{{Kind: dbaas.ChangeRows, Data: make([]byte, n)}}
	}
	for _, tc := range []struct {
		entry dbaas.Entry
		away  bool
	}{
		{dbaas.Entry{Shard: 2, Seq: 7, Epoch: 3, At: time.UnixMilli(5)}, false},
		{dbaas.Entry{Shard: 2, Seq: 7, Epoch: 3, At: time.UnixMilli(5), Changes: change(wire.MaxEntryBytes)}, false},
		{dbaas.Entry{Shard: 2, Seq: 7, Epoch: 3, At: time.UnixMilli(5), Changes: change(wire.MaxEntryBytes + 1)}, true},
		{dbaas.Entry{Shard: 2, Seq: 7, Epoch: 3, At: time.UnixMilli(5), ChangesOmitted: true}, true},
	} {
		b, err := wire.EncodeEntry(tc.entry)
		if err != nil || tc.away && len(b) > 100 {
			t.Fatalf("%d bytes of changes: frame of %d bytes, %v", tc.entry.Size(), len(b), err)
		}
		want := tc.entry
		if tc.away {
			want.ChangesOmitted, want.Changes = true, nil
		}
		got, err := wire.DecodeEntry(b)
		if diff := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); err != nil || diff != "" {
			t.Errorf("%d bytes of changes, %v (-want +got):\n%s", tc.entry.Size(), err, diff)
		}
		if _, err = wire.DecodeEntries(b); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("as a page: got %v, want %v", err, wire.ErrMalformed)
		}
	}
}

// encodePage is EncodeEntries with its parts joined.
func encodePage(shard dbaas.ShardID, entries []dbaas.Entry) ([]byte, error) {
	parts, err := wire.EncodeEntries(shard, entries)
	return bytes.Join(parts, nil), err
}

// The large changes of a page become parts without a copy, and a page that no frame can hold is refused.
func TestEncodeEntries_LargeChangesAreNotCopied(t *testing.T) {
	data := bytes.Repeat([]byte("large"), 20_000)
	rows := dbaas.Change{Kind: dbaas.ChangeRows, Data: data}
	entries := []dbaas.Entry{
		{Seq: 1, Epoch: 1, Changes: []dbaas.Change{rows, {Kind: dbaas.ChangeSchema, Data: []byte("DROP")}, rows}},
		{Seq: 2, Epoch: 1},
		{Seq: 3, Epoch: 1, Changes: []dbaas.Change{rows}},
	}
	parts, err := wire.EncodeEntries(0, entries)
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for _, p := range parts {
		if &p[0] == &data[0] {
			same++
		}
	}
	if same != 3 {
		t.Errorf("%d of 3 changes are not copied", same)
	}
	got, err := wire.DecodeEntries(bytes.Join(parts, nil))
	if diff := cmp.Diff(entries, got, cmp.Comparer(bytes.Equal)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	rows.Data = make([]byte, wire.MaxBytes)
	if _, err = wire.EncodeEntries(0, []dbaas.Entry{{Changes: []dbaas.Change{rows}}}); !errors.Is(err, wire.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, wire.ErrTooLarge)
	}
}
