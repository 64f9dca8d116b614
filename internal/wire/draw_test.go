package wire_test

import (
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"

	"pgregory.net/rapid"
)

// drawTime draws the zero time or one with the resolution of the wire.
func drawTime(t *rapid.T) time.Time {
	ms := rapid.Int64Range(-1<<45, 1<<45).Draw(t, "ms")
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// drawDeadline draws a deadline before or after sent, or none.
func drawDeadline(t *rapid.T) time.Time {
	left := rapid.Int64Range(-1<<40, 1<<40).Draw(t, "left")
	if left == 0 {
		return time.Time{}
	}
	return sent.Add(time.Duration(left) * time.Millisecond)
}

func drawValue(t *rapid.T) dbaas.Value {
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 1:
		return dbaas.Integer(rapid.Int64().Draw(t, "int"))
	case 2:
		return dbaas.Float(rapid.Float64().Draw(t, "float"))
	case 3:
		return dbaas.Text(rapid.String().Draw(t, "text"))
	case 4:
		return dbaas.Blob(rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "blob"))
	default:
		return dbaas.Null()
	}
}

// drawList draws a list of up to four; the empty one is nil, as decoded ones are.
func drawList[T any](t *rapid.T, draw func(*rapid.T) T) []T {
	var out []T
	for range rapid.IntRange(0, 4).Draw(t, "length") {
		out = append(out, draw(t))
	}
	return out
}

func drawText(t *rapid.T) string { return rapid.String().Draw(t, "text") }

func drawStatement(t *rapid.T) dbaas.Statement {
	return dbaas.Statement{
		SQL:  drawText(t),
		Args: drawList(t, drawValue),
		Named: drawList(t, func(t *rapid.T) dbaas.NamedValue {
			return dbaas.NamedValue{Name: drawText(t), Value: drawValue(t)}
		}),
	}
}

func drawSixteen(t *rapid.T) [16]byte {
	return [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
}

func drawRead(t *rapid.T) dbaas.Read {
	return dbaas.Read{
		RequestID:    drawText(t),
		Deadline:     drawDeadline(t),
		MinSeq:       dbaas.Seq(rapid.Uint64().Draw(t, "min")),
		Linearizable: rapid.Bool().Draw(t, "linearizable"),
		Format:       dbaas.Format(rapid.IntRange(1, 3).Draw(t, "format")),
		Timings:      rapid.Bool().Draw(t, "timings"),
		BlobArray:    rapid.Bool().Draw(t, "blob_array"),
		WantTags:     rapid.Bool().Draw(t, "want_tags"),
		AsQuery:      rapid.Bool().Draw(t, "as_query"),
		Statements:   drawList(t, drawStatement),

		QualifyColumns: rapid.Bool().Draw(t, "qualify"),
		StatementTime:  time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "limit")),
	}
}

func drawOperation(t *rapid.T) dbaas.Operation {
	return dbaas.Operation{
		ID: drawSixteen(t), Fingerprint: drawSixteen(t), SeenSeq: dbaas.Seq(rapid.Uint64().Draw(t, "seen")), Cluster: drawSixteen(t), Deadline: drawDeadline(t),
		Atomic: rapid.Bool().Draw(t, "atomic"), Resent: rapid.Bool().Draw(t, "resent"), Load: dbaas.LoadMode(rapid.IntRange(0, 2).Draw(t, "load")), GiveUp: drawText(t), RequestID: drawText(t), Statements: drawList(t, drawStatement),
		QualifyColumns: rapid.Bool().Draw(t, "qualify"), StatementTime: time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "limit")),
	}
}

func drawResult(t *rapid.T) dbaas.OperationResult {
	return dbaas.OperationResult{
		ID: drawSixteen(t), Seq: dbaas.Seq(rapid.Uint64().Draw(t, "seq")),
		Code: dbaas.Code(drawText(t)), Message: drawText(t),
		Statements: drawList(t, func(t *rapid.T) dbaas.StatementResult {
			return dbaas.StatementResult{
				Code: dbaas.Code(drawText(t)), Message: drawText(t),
				LastInsertID: rapid.Int64().Draw(t, "last"), RowsAffected: rapid.Int64().Draw(t, "rows"),
				Columns: drawList(t, drawText), Types: drawList(t, drawText),
				Rows: drawList(t, func(t *rapid.T) dbaas.Row { return drawList(t, drawValue) }),
			}
		}),
	}
}

func drawEntry(t *rapid.T) dbaas.Entry {
	return dbaas.Entry{
		Shard: 3, Cluster: drawSixteen(t), Seq: dbaas.Seq(rapid.Uint64().Draw(t, "seq")), Epoch: dbaas.Epoch(rapid.Uint64().Draw(t, "epoch")),
		At: drawTime(t), Changes: drawList(t, func(t *rapid.T) dbaas.Change {
			return dbaas.Change{
				Kind: dbaas.ChangeKind(rapid.IntRange(1, 2).Draw(t, "kind")),
				Data: rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "data"),
			}
		}),
	}
}

// drawTags draws up to two tags; none are nil, as decoded ones are.
func drawTags(t *rapid.T) []byte {
	var tags readtags.Tags
	for range rapid.IntRange(0, 2).Draw(t, "tags") {
		tags = tags.Add(readtags.Kind(rapid.IntRange(0, readtags.Kinds-1).Draw(t, "kind")), readtags.Slot(rapid.Uint16().Draw(t, "slot")))
	}
	return tags
}
