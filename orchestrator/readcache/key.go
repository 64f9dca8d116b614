package readcache

import (
	"errors"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
)

// keyOf returns what distinguishes the answer to r from other answers: the statement, its typed values, and the format.
// Lengths and counts come first, so that two different reads never have the same key.
func keyOf(r *dbaas.Read) string {
	st := &r.Statements[0]
	b := make([]byte, 0, 32+len(st.SQL)+24*(len(st.Args)+len(st.Named)))
	b = append(b, byte(r.Format), flag(r.BlobArray), flag(r.QualifyColumns))
	b = packed.AppendBytes(b, st.SQL)
	b = packed.AppendUint(b, uint64(len(st.Args)))
	for i := range st.Args {
		b = packed.AppendValue(b, st.Args[i])
	}
	for i := range st.Named {
		b = packed.AppendValue(packed.AppendBytes(b, st.Named[i].Name), st.Named[i].Value)
	}
	return string(b)
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

var errKey = errors.New("malformed key of the read cache")

// readOf returns the read that keyOf was called with, as far as its answer depends on it.
func readOf(key string) (r dbaas.Read, err error) {
	k := packed.Reader{Rest: []byte(key)}
	r.Format, r.BlobArray, r.QualifyColumns = dbaas.Format(k.Byte()), k.Byte() == 1, k.Byte() == 1
	st := dbaas.Statement{SQL: k.Text()}
	for n := k.Uint(); n > 0 && !k.Bad; n-- {
		st.Args = append(st.Args, k.Value())
	}
	for len(k.Rest) > 0 {
		name := k.Text()
		st.Named = append(st.Named, dbaas.NamedValue{Name: name, Value: k.Value()})
	}
	if r.Statements = []dbaas.Statement{st}; k.Bad {
		return r, errKey
	}
	return r, nil
}
