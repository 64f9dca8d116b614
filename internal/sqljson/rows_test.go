package sqljson_test

import (
	"errors"
	"strconv"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqljson"
)

// counted is rows of one text column: so many rows, then err.
type counted struct {
	rows, at int
	text     string
	err      error
	rendered []int
}

func (c *counted) Declared(int) string { return "text" }

func (c *counted) Kind(int) dbaas.ValueKind { return dbaas.KindText }

func (c *counted) Value(_, room int) (dbaas.Value, bool) {
	return dbaas.Text(c.text), len(c.text) <= room
}

func (c *counted) Next(rendered int) (bool, error) {
	c.rendered = append(c.rendered, rendered)
	c.at++
	if c.at == c.rows {
		return false, c.err
	}
	return true, nil
}

// The limit counts the answer alone, without what the buffer had before, and to the byte.
func TestRenderer_AppendRows_LimitToTheByte(t *testing.T) {
	t.Parallel()
	const row = `"a\"b"` // the text is shorter than its JSON
	for name, limit := range map[string]int{"Fits": len("[[" + row + "]]"), "OneShort": len("[["+row+"]]") - 1, "TextLonger": 2} {
		b := []byte("before")
		r := sqljson.Renderer{Start: len(b), Limit: limit}
		b, err := r.AppendRows(b, sqljson.NewColumns([]string{"v"}), &counted{rows: 1, text: `a"b`}, true)
		if name == "Fits" {
			if err != nil || string(b) != "before[["+row+"]]" {
				t.Errorf("%s: got %s, %v", name, b, err)
			}
		} else if want := "the answer is over the limit of " + strconv.Itoa(limit) + " bytes"; dbaas.CodeOf(err) != dbaas.CodeTooLarge || err.Error() != want {
			t.Errorf("%s: got %s, %v, want %s", name, b, err, want)
		}
	}
}

// The source gets the size of each row, and its error ends the array.
func TestRenderer_AppendRows_SizesAndErrors(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	rows := &counted{rows: 2, text: "x", err: failed}
	r := sqljson.Renderer{Objects: true}
	if _, err := r.AppendRows(nil, sqljson.NewColumns([]string{"v"}), rows, true); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	if len(rows.rendered) != 2 || rows.rendered[0] != len(`{"v":"x"}`) || rows.rendered[1] != len(`{"v":"x"}`) {
		t.Errorf("got sizes %d", rows.rendered)
	}
}

// A write's rows are rendered as a read's, whatever the limit of the reads is.
func TestRenderer_AppendStored_Formats(t *testing.T) {
	t.Parallel()
	result := dbaas.StatementResult{
		Columns: []string{"a", "b", "a"}, Types: []string{"integer", "blob", "real"},
		Rows: []dbaas.Row{{dbaas.Integer(1), dbaas.Blob([]byte{0, 255}), dbaas.Float(0.5)}, {dbaas.Null(), dbaas.Blob(nil), dbaas.Text("\x00")}},
	}
	for _, tc := range []struct {
		r    sqljson.Renderer
		want string
	}{
		{sqljson.Renderer{Limit: 1}, `"columns":["a","b","a"],"types":["integer","blob","real"],"values":[[1,"AP8=",0.5],[null,"","\u0000"]]`},
		{sqljson.Renderer{Objects: true, BlobArray: true}, `"types":{"b":"blob","a":"real"},"rows":[{"b":[0,255],"a":0.5},{"b":[],"a":"\u0000"}]`},
	} {
		if got, err := tc.r.AppendStored(nil, &result); err != nil || string(got) != tc.want {
			t.Errorf("got  %s, %v\nwant %s", got, err, tc.want)
		}
	}
}
