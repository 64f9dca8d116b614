package sqlite

import "encoding/binary"

// Kept returns how many client statements c keeps.
func Kept(c *Conn) int { return len(c.guarded) }

// NumbersAfter returns the numbers that a snapshot gives to n pages after last, if the engine has its locks in the page with the number lock.
func NumbersAfter(last, lock uint32, n int) ([]uint32, error) {
	r := renumbering{last: last, lock: lock, limit: uint32(n)}
	numbers := make([]uint32, n)
	for i := range numbers {
		ref := []byte{0, 0, 0, 1}
		if err := r.move(ref, 0); err != nil {
			return nil, err
		}
		numbers[i] = binary.BigEndian.Uint32(ref)
	}
	return numbers, nil
}

// Pragmas are the statements that Open runs.
func (o Options) Pragmas() []string { return o.pragmas() }
