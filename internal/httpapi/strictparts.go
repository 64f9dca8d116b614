package httpapi

import (
	"slices"
	"strconv"
	"unicode/utf16"
)

// fewKeys is how many keys of an object are compared one by one; an object with more gets a map.
const fewKeys = 16

// keySet is the keys seen so far of one object.
type keySet struct {
	few  []string
	many map[string]struct{}
}

// add reports whether key is new.
func (k *keySet) add(key string) bool {
	if k.many == nil {
		if slices.Contains(k.few, key) {
			return false
		}
		k.few = append(k.few, key)
		if len(k.few) > fewKeys {
			k.many = make(map[string]struct{}, 2*fewKeys)
			for _, old := range k.few {
				k.many[old] = struct{}{}
			}
		}
		return true
	}
	if _, ok := k.many[key]; ok {
		return false
	}
	k.many[key] = struct{}{}
	return true
}

// loneSurrogate reports whether quoted JSON text contains an escaped half of a surrogate pair, which encoding/json
// would silently replace.
func loneSurrogate(quoted []byte) bool {
	for i := 0; i < len(quoted); i++ {
		if quoted[i] != '\\' {
			continue
		}
		first, ok := escapedUnit(quoted[i:])
		i++ // skip the escaped character, so that `\\u` is not taken for `\u`
		if !ok || !utf16.IsSurrogate(first) {
			continue
		}
		second, ok := escapedUnit(quoted[min(i+5, len(quoted)):])
		if !ok || utf16.DecodeRune(first, second) == '\uFFFD' {
			return true
		}
		i += 5 + 5 // skip the rest of both escapes
	}
	return false
}

// escapedUnit returns the UTF-16 code unit of text that starts with \uXXXX.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}
