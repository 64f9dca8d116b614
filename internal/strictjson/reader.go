// Package strictjson reads JSON that clients sent. Nothing is guessed: a duplicate key (at any depth), invalid UTF-8,
// half of a surrogate pair, malformed text and data after the value are errors. encoding/json accepts most of these.
//
// Unmarshal fills a struct. Read is for a body that does not have the shape of a struct, or is large: its texts share
// the body's memory.
//
// The grammar is checked by jsontext, the tokenizer of the standard library's next JSON package.
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"

	"rideshare/internal/dbaas"
)

// Reader reads one JSON value, piece by piece. It is valid within the call of Read.
type Reader struct {
	dec  *jsontext.Decoder
	data bytes.Buffer
}

// maxPooled is the length in bytes of the longest data whose Reader is used again: a Reader keeps the data, and copies
// of the keys.
const maxPooled = 64 << 10

var readers = sync.Pool{New: func() any { return &Reader{dec: new(jsontext.Decoder)} }}

// Read calls read, which must read exactly one value of data or return an error. Malformed text and data after the
// value are CodeInvalid; another error of read is returned as it is.
//
// Texts share the memory of data, which must not be modified afterwards.
func Read(data []byte, read func(*Reader) error) error {
	r, _ := readers.Get().(*Reader)
	r.data = *bytes.NewBuffer(data)
	r.dec.Reset(&r.data)
	err := read(r)
	if err == nil {
		err = r.end()
	}
	if text, ok := malformed(err); ok {
		err = invalid("%s", text)
	}
	if len(data) <= maxPooled {
		readers.Put(r)
	}
	return err
}

// end returns an error unless only white space is left.
func (r *Reader) end() error {
	at := r.dec.InputOffset()
	if _, err := r.dec.ReadToken(); err != io.EOF { //nolint:errorlint // jsontext returns it as it is.
		return invalid("data after the JSON value, at byte %d", at)
	}
	return nil
}

// Kind returns the kind of the next value: '{', '[', '"', '0' for any number, 't', 'f' or 'n'. It returns 0 if no value
// comes next, as in malformed text.
func (r *Reader) Kind() byte {
	kind := r.dec.PeekKind()
	if kind == jsontext.KindEndObject || kind == jsontext.KindEndArray {
		return 0
	}
	return byte(kind)
}

// Wrong returns the error for a next value of a kind that the caller does not accept. want describes what is accepted.
// If the text is malformed, the error reports that too.
func (r *Reader) Wrong(want string) error {
	if _, err := r.dec.ReadToken(); err != nil {
		text, _ := malformed(err)
		return invalid("%s; %s", text, want)
	}
	return invalid("%s", want)
}

// Object reads an object. It calls member for each key; member reads the value.
func (r *Reader) Object(member func(key string) error) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() != jsontext.KindEndObject {
		key, err := r.Text()
		if err != nil {
			return err
		}
		if err = member(key); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// Array reads an array. It calls item before each element; item reads the element.
func (r *Reader) Array(item func() error) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() != jsontext.KindEndArray {
		if err := item(); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// Text reads a string, which Kind has announced.
func (r *Reader) Text() (string, error) {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return "", err
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return shared(raw[1 : len(raw)-1]), nil
	}
	text, err := jsontext.AppendUnquote(make([]byte, 0, len(raw)), raw)
	return shared(text), err
}

// Literal reads a number, true, false or null, and returns it as it is written.
func (r *Reader) Literal() (string, error) {
	raw, err := r.dec.ReadValue()
	return shared(raw), err
}

// shared returns b as a string without copying, so that a body of 64 MiB is not held twice.
func shared(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // The data is not changed after it has been read.
}

// malformed returns the message for an error of the tokenizer.
func malformed(err error) (string, bool) {
	if err == io.EOF { //nolint:errorlint // jsontext returns it as it is.
		return "empty", true
	}
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return "", false
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return fmt.Sprintf("duplicate key %.64q", syntax.JSONPointer.LastToken()), true
	}
	return fmt.Sprintf("malformed JSON at byte %d: %v", syntax.ByteOffset, syntax.Err), true
}

func invalid(format string, args ...any) error {
	return dbaas.Errorf(dbaas.CodeInvalid, format, args...)
}
