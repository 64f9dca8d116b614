package commitlog_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/testkit/sqlgen"
	"rideshare/persdb/commitlog"
)

// forget forgets the first operation with a number if the store may have forgotten it: its entry was trimmed and the
// number is sent again, or the operation only read and its id is not the client's.
func (r *scriptRun) forget(ctx context.Context, o *sqlgen.Operation, op *dbaas.Operation) error {
	f, ok := r.first[o.Number]
	if !ok {
		return nil
	}
	_, err := r.store.Lookup(ctx, op.ID)
	if dbaas.CodeOf(err) != dbaas.CodeNotFound {
		return err
	}
	trimmed := f.result.Seq <= r.trimmed
	switch {
	case onlyRead(&f):
	case trimmed && f.sent.Fingerprint == op.Fingerprint:
		return nil
	case !trimmed:
		return fmt.Errorf("operation %d is not known any more", o.Number)
	}
	delete(r.first, o.Number)
	return nil
}

// onlyRead reports whether the store need not remember an operation.
func onlyRead(f *firstAnswer) bool {
	for i, st := range f.sent.Statements {
		verb, _, _ := strings.Cut(st.SQL, " ")
		if !slices.Contains([]string{"SELECT", "VALUES(1,", "PRAGMA"}, verb) || i >= len(f.result.Statements) || f.result.Statements[i].Code != dbaas.CodeOK {
			return false
		}
	}
	return f.sent.ID.Generated()
}

// classify checks the answer of one operation.
func (r *scriptRun) classify(o *sqlgen.Operation, sent *dbaas.Operation, got *dbaas.OperationResult) error {
	if f, ok := r.first[o.Number]; ok {
		switch {
		case got.Code == dbaas.CodeExpired && f.result.Seq <= r.trimmed:
			return nil
		case f.sent.Fingerprint != sent.Fingerprint:
			if got.Code != dbaas.CodeMismatch {
				return fmt.Errorf("another operation under a known id: got code %q, want mismatch", got.Code)
			}
			return nil
		}
		if diff := cmp.Diff(&f.result, got); diff != "" {
			return fmt.Errorf("the operation again (-first +again):\n%s", diff)
		}
		return nil
	}
	if got.Code == dbaas.CodeExpired && sent.SeenSeq < r.trimmed { // the operation only read, and was repeated late
		return nil
	}
	r.first[o.Number] = firstAnswer{*sent, *got}
	if got.Code != dbaas.CodeOK {
		return fmt.Errorf("refused with %s: %s", got.Code, got.Message)
	}
	if r.loose {
		return nil
	}
	return sameAnswers(o, r.model.operation(o), got.Statements)
}

// sameAnswers compares the answers of the statements of an operation.
func sameAnswers(o *sqlgen.Operation, want, got []dbaas.StatementResult) error {
	if len(want) != len(got) {
		return fmt.Errorf("got %d answers %v, want %d: %v", len(got), got, len(want), want)
	}
	failed := false
	for i := range want {
		w, g := answerText(want[i], failed), answerText(got[i], failed)
		if o.Statements[i].Kind == sqlgen.Refused && got[i].Code != dbaas.CodeOK {
			w, g = "", ""
		}
		if w != g {
			return fmt.Errorf("statement %d, %s:\ngot  %s\nwant %s", i, o.Statements[i].SQL, g, w)
		}
		failed = failed || want[i].Code != dbaas.CodeOK
	}
	return nil
}

// answerText formats an answer. After a failure in the same operation the last rowid is left out: SQLite remembers the
// rowid that a failed statement had already used, and a batch that is run again does not.
func answerText(r dbaas.StatementResult, failed bool) string {
	if r.Code != dbaas.CodeOK {
		return "error " + r.Message
	}
	text := fmt.Sprintf("%d rows affected", r.RowsAffected)
	if !failed {
		text += fmt.Sprintf(", last id %d", r.LastInsertID)
	}
	text += ", columns " + strings.Join(r.Columns, ",")
	for _, row := range r.Rows {
		text += "; " + show(row)
	}
	return text
}

// compare compares all files at the end.
func (r *scriptRun) compare(ctx context.Context) error {
	if err := errors.Join(r.follow(ctx), r.join(ctx, 1)); err != nil {
		return err
	}
	hashes, err := r.store.Hashes(ctx)
	if err != nil {
		return err
	}
	want, err := contentOf(filepath.Join(r.dir, "persdb", commitlog.FileName))
	if err != nil {
		return err
	}
	if want["(integrity)"] != "\"ok\"\n" {
		return fmt.Errorf("integrity_check of the store: %s", want["(integrity)"])
	}
	for i, f := range r.replicas {
		got, err := contentOf(f.path)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("replica %d differs (-store +replica):\n%s", i, diff)
		}
		replica, err := replication.Hashes(f.conn, func() {})
		if err != nil {
			return err
		}
		if diff := cmp.Diff(hashes.Tables, replica); diff != "" {
			return fmt.Errorf("the hashes of replica %d differ where the rows do not (-store +replica):\n%s", i, diff)
		}
	}
	if r.loose {
		return nil
	}
	if diff := cmp.Diff(r.model.content(), want); diff != "" {
		return fmt.Errorf("the store differs from plain SQLite (-plain +store):\n%s", diff)
	}
	return nil
}

func contentOf(path string) (map[string]string, error) {
	p, err := openPlain(path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.content(), nil
}
