package sqlite

import "encoding/binary"

// The parts of the file format that a snapshot needs. Source: https://www.sqlite.org/fileformat2.html
const (
	fileHeader = 100 // bytes at the start of page 1
	atPageSize = 16
	atReserved = 20
	atPages    = 28
	atFormat   = 44
	atEncoding = 56

	// lockByte is the offset of the bytes that the engine locks; the page that contains it is never used.
	lockByte = 1 << 30

	interiorIndex, interiorTable = 2, 5
	leafIndex, leafTable         = 10, 13

	leafHeader, interiorHeader = 8, 12
)

// visit is one page of the future snapshot: a page of a tree, its root included, or, if payload is not zero, an overflow
// page with up to payload bytes of a value that is too long for a tree's page.
type visit struct {
	page    uint32
	payload uint32
}

// renumbering numbers pages in the order in which they are met, and queues those that have not been visited.
type renumbering struct {
	waiting []visit
	last    uint32 // last number given out
	lock    uint32 // the number that is given to no page
	limit   uint32 // pages of the live file
	met     uint32
}

func (r *renumbering) pop() visit {
	v := r.waiting[0]
	r.waiting = r.waiting[1:]
	return v
}

// move replaces the page's old number at ref by its new one.
func (r *renumbering) move(ref []byte, payload int) error {
	old := binary.BigEndian.Uint32(ref)
	if r.met++; old == 0 || old > r.limit || r.met > r.limit { // more references than pages: a cycle.
		return errDamaged
	}
	if r.last++; r.last == r.lock {
		r.last++
	}
	r.waiting = append(r.waiting, visit{page: old, payload: uint32(payload)}) //nolint:gosec // SQLite's values are below 2 GiB.
	binary.BigEndian.PutUint32(ref, r.last)
	return nil
}

// btreePage is a page whose references to other pages are being changed. Its unused bytes are cleared, since they may
// contain leftovers of other tables.
type btreePage struct {
	page []byte
	*renumbering
}

// overflow handles an overflow page: the number of the next overflow page, then bytes of the value.
func (b btreePage) overflow(payload uint32) error {
	left := int(payload) - (len(b.page) - 4)
	if left > 0 {
		return b.move(b.page[:4], left)
	}
	clear(b.page[:4])
	clear(b.page[4+payload:])
	return nil
}

// renumber handles a page of a tree.
func (b btreePage) renumber() error {
	kind := b.page[0]
	header := leafHeader
	switch kind {
	case leafIndex, leafTable:
	case interiorIndex, interiorTable:
		header = interiorHeader
	default:
		return errDamaged
	}
	cells := b.int16(3)
	end := header + 2*cells
	if end > len(b.page) {
		return errDamaged
	}
	for at := header; at < end; at += 2 {
		cell := b.int16(at)
		if cell < end || cell > len(b.page)-4 {
			return errDamaged
		}
		if err := b.cell(kind, b.page[cell:]); err != nil {
			return err
		}
	}
	if header == interiorHeader {
		if err := b.move(b.page[8:12], 0); err != nil {
			return err
		}
	}
	return b.wipe(end)
}

// cell changes the references of one cell: to a child page, and to the overflow pages of a long value.
func (b btreePage) cell(kind byte, cell []byte) error {
	if kind == interiorIndex || kind == interiorTable {
		if err := b.move(cell[:4], 0); err != nil {
			return err
		}
		cell = cell[4:]
	}
	if kind == interiorTable {
		return nil
	}
	payload, n := varint(cell)
	cell = cell[n:]
	if kind == leafTable {
		_, n = varint(cell) // the row's id
		cell = cell[n:]
	}
	local := local(payload, len(b.page), kind == leafTable)
	switch {
	case payload > 1<<31 || local > len(cell):
		return errDamaged
	case local == int(payload):
		return nil
	case local+4 > len(cell):
		return errDamaged
	}
	return b.move(cell[local:local+4], int(payload)-local)
}

// wipe clears the bytes that no cell uses: those between the pointers and the cells, and the free blocks. Fragments of
// up to three bytes between two cells stay as they are.
func (b btreePage) wipe(pointers int) error {
	content := b.int16(5)
	if content == 0 { // 65536, by the file format.
		content = 1 << 16
	}
	if content < pointers || content > len(b.page) {
		return errDamaged
	}
	clear(b.page[pointers:content])
	for block := b.int16(1); block != 0; {
		if block < content || block+4 > len(b.page) {
			return errDamaged
		}
		next, size := b.int16(block), b.int16(block+2)
		if size < 4 || block+size > len(b.page) || next != 0 && next <= block {
			return errDamaged
		}
		clear(b.page[block+4 : block+size])
		block = next
	}
	return nil
}

func (b btreePage) int16(at int) int { return int(binary.BigEndian.Uint16(b.page[at:])) }

// local returns how many bytes of a payload are stored in the cell itself.
func local(payload uint64, usable int, table bool) int {
	most, least := (usable-12)*64/255-23, (usable-12)*32/255-23
	if table {
		most = usable - 35
	}
	if payload <= uint64(most) { //nolint:gosec // a page's size.
		return int(payload) //nolint:gosec // at most a page's size.
	}
	if n := least + int((payload-uint64(least))%uint64(usable-4)); n <= most { //nolint:gosec // a page's size.
		return n
	}
	return least
}

// varint decodes SQLite's variable-length integer of up to nine bytes. n is its length. varint does not read beyond the
// end of b.
func varint(b []byte) (v uint64, n int) {
	for n < len(b) {
		c := b[n]
		n++
		if n == 9 {
			return v<<8 | uint64(c), n
		}
		if v = v<<7 | uint64(c&0x7f); c < 0x80 {
			break
		}
	}
	return v, n
}
