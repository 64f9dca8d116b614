package sqlgen

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"rideshare/internal/dbaas"
)

// The values. There are few, and they are similar, so that they collide: equal under one collation or affinity and
// different under another.
var (
	smallIntegers = []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, -1}
	integers      = []int64{0, 1, 1, 2, 2, 3, 3, 5, 7, -1, 1 << 53, 1<<53 + 1, math.MinInt64, 1 << 62}
	floats        = []float64{0.0, math.Copysign(0, -1), 1.0, 2.0, 2.5, -1.5, 1 << 53, 9007199254740993.0, 1e300, 0.1}
	texts         = []string{"", "a", "A", "a ", "b", "B", "b  ", "1", "1.0", " 1", "2", "é", "É", "x\x00y", "0x1", "null", "aa", "9007199254740993"}
	blobs         = []string{"", "\x00", "a", "A", "1", "\xff\xfe"}
)

// one draws one of a list.
func one[T any](g *Generator, list []T) T { return list[g.rnd.IntN(len(list))] }

// of draws one of its arguments.
func of[T any](g *Generator, list ...T) T { return one(g, list) }

// value draws any value.
func (g *Generator) value() dbaas.Value {
	switch g.rnd.IntN(12) {
	case 0:
		return dbaas.Null()
	case 1, 2, 3, 4:
		return dbaas.Integer(one(g, integers))
	case 5, 6:
		if g.loose && g.chance(5) {
			return dbaas.Float(math.Inf(1))
		}
		return dbaas.Float(one(g, floats))
	case 7, 8, 9, 10:
		return dbaas.Text(one(g, texts))
	default:
		return dbaas.Blob([]byte(one(g, blobs)))
	}
}

// valueFor draws a value that the column usually accepts.
func (g *Generator) valueFor(c column) dbaas.Value {
	if g.chance(15) {
		return g.value()
	}
	if c.rowid { // large ones leave room for later ones, which SQLite would otherwise draw at random.
		if g.chance(15) {
			return dbaas.Null()
		}
		return dbaas.Integer(one(g, smallIntegers))
	}
	switch strings.ToUpper(c.kind) {
	case "INTEGER", "INT":
		return dbaas.Integer(one(g, integers))
	case "REAL":
		return dbaas.Float(one(g, floats))
	case "TEXT", "VARCHAR(10)":
		return dbaas.Text(one(g, texts))
	case "BLOB":
		return dbaas.Blob([]byte(one(g, blobs)))
	default:
		return g.value()
	}
}

// literal writes a value as SQL.
func literal(v dbaas.Value) string {
	switch v.Kind {
	case dbaas.KindInteger:
		if v.Int == math.MinInt64 { // the literal would be a REAL.
			return "(-9223372036854775807-1)"
		}
		return strconv.FormatInt(v.Int, 10)
	case dbaas.KindFloat:
		if math.IsInf(v.Float, 1) {
			return "9e999"
		}
		s := strconv.FormatFloat(v.Float, 'g', -1, 64)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return s
	case dbaas.KindText:
		if strings.ContainsRune(v.Text, 0) {
			return fmt.Sprintf("CAST(x'%s' AS TEXT)", hex.EncodeToString([]byte(v.Text)))
		}
		return "'" + strings.ReplaceAll(v.Text, "'", "''") + "'"
	case dbaas.KindBlob:
		return "x'" + hex.EncodeToString(v.Blob) + "'"
	case dbaas.KindNull:
	}
	return "NULL"
}

// style is how a statement passes its values.
type style uint8

const (
	literals style = iota
	byPosition
	byName
)

// text builds one statement.
type text struct {
	g     *Generator
	style style
	args  []dbaas.Value
	named []dbaas.NamedValue
}

func (g *Generator) newText() *text {
	return &text{g: g, style: of(g, literals, literals, byPosition, byPosition, byName)}
}

// put writes a value in the statement's style.
func (x *text) put(v dbaas.Value) string {
	switch {
	case x.style == byPosition && x.g.chance(70):
		x.args = append(x.args, v)
		return "?"
	case x.style == byName && x.g.chance(70):
		if len(x.named) > 0 && x.g.chance(20) {
			return of(x.g, ":", "@", "$") + one(x.g, x.named).Name
		}
		name := "p" + strconv.Itoa(len(x.named))
		x.named = append(x.named, dbaas.NamedValue{Name: name, Value: v})
		return of(x.g, ":", "@", "$") + name
	default:
		return literal(v)
	}
}

func (x *text) value() string { return x.put(x.g.value()) }

// statement returns the finished statement.
func (x *text) statement(sql string) Statement {
	return Statement{Statement: dbaas.Statement{SQL: sql, Args: x.args, Named: x.named}}
}
