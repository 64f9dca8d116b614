package sqltext

// Fold returns a name as SQLite compares names: with A to Z in lower case and every other byte as it is. So É and é are two names, and
// so are s and ſ, which strings.EqualFold takes for one.
func Fold(name string) string {
	b := []byte(name)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// SameName reports whether SQLite takes a and b for the same name.
func SameName(a, b string) bool { return Fold(a) == Fold(b) }
